#include "training_cases.hpp"

#include <algorithm>
#include <filesystem>

namespace training_data_test {

using namespace training_cases;

TEST(TrainingData, CsvWithTheLabelLastAndNoHeader) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += fmt::format("{},{},{}\n", i, i * i % 7, i % 3 == 0 ? 10 : i % 3);
  Task task;
  task.data = write("plain.csv", text);
  const TrainingData data = load(task);
  EXPECT_EQ(data.features(), 2);
  EXPECT_EQ(data.train.rows() + data.test.rows(), 50);
  EXPECT_EQ(data.test.rows(), 10);
  EXPECT_EQ(data.classes, (std::vector<std::string>{"1", "2", "10"}));
  // Standardised by the training rows.
  EXPECT_NEAR(data.train.inputs.row(0).mean(), 0, 1e-6);
  EXPECT_NEAR(data.train.inputs.row(0).squaredNorm() / static_cast<float>(data.train.rows()), 1, 1e-5);
}

TEST(TrainingData, ComplaintsNameTheFileAndTheRow) {
  Task task;
  task.data = write("train.csv", "1,2,a\n3,4,b\n5,6,a\n7,8,b\n");
  task.test = write("test.csv", "1,2,a\n3,4,c\n");
  EXPECT_COMPLAINT(load(task), "test.csv");
  EXPECT_COMPLAINT((read_training_data({.data = task.data}, {.test_share = 1.5})), "split.test_share = 1.5");
  task.test = "";
  task.data = write("numbers.csv", "1,2,0.5\n3,4,0.7\n");
  EXPECT_COMPLAINT(load(task), "row 1 has the label 0.5; labels are classes");
  task.data = write("one.csv", "1,2,3\n3,4,3\n");
  EXPECT_COMPLAINT(load(task), "there is nothing to tell apart");
  std::filesystem::create_directories(scratch("empty"));
  task.data = scratch("empty");
  EXPECT_COMPLAINT(load(task), "there is no train-images-idx3-ubyte");
}

TEST(TrainingData, ClassesAreFoldersOfPictures) {
  const std::string root = scratch("letters");
  const auto fill = [&](const std::string& part, int pictures) {
    for (const std::string label : {"a", "b"}) {
      std::filesystem::create_directories(fmt::format("{}/{}/{}", root, part, label));
      for (int k = 0; k < pictures; ++k)
        write(fmt::format("letters/{}/{}/{}.pgm", part, label, k),
              label == "a" ? "P2 1 1 10 10" : "P2 1 1 10 9");
    }
  };
  fill("train", 5);
  Task task;
  task.data = root + "/train";
  EXPECT_EQ(load(task).test.rows(), 2);
  fill("test", 3);
  task.data = root;
  const TrainingData data = load(task);
  EXPECT_EQ(data.classes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(data.train.rows(), 10);
  EXPECT_EQ(data.test.rows(), 6);
  EXPECT_EQ(data.image, (std::pair<Index, Index>{28, 28}));
  // White paper: inverted, in both parts, and the largest becomes 1.
  EXPECT_EQ(data.train.inputs(0, 0), 0);
  EXPECT_FLOAT_EQ(data.test.inputs(0, 5), 1);
  task.reading.labels = "names";
  EXPECT_COMPLAINT(load(task), "the names of the folders");
}

TEST(TrainingData, QuantitiesAreNoClasses) {
  // 200 whole numbers, hardly one of them twice, as a sum of money or a score is.
  std::string text = "a,score\n";
  for (int i = 0; i < 300; ++i) text += fmt::format("{},{}\n", i % 13, 25 + (i * 37) % 200);
  Task task;
  task.data = write("scores.csv", text);
  EXPECT_COMPLAINT(load(task), "a quantity rather than classes");
  EXPECT_COMPLAINT(load(task), "`categorical` 'score'");
  task.reading.categorical = {"score"};
  EXPECT_EQ(load(task).classes.size(), 200U) << "said to be classes";
  task.reading.categorical = {};
  const auto numbers = [](const std::string& name, int rows, int count, int step) {
    std::string table = "a,kind\n";
    for (int i = 0; i < rows; ++i) table += fmt::format("{},{}\n", i % 13, step * (i % count));
    return write(name, table);
  };
  // As many rows a class as classes have.
  for (const int count : {20, 21, 50}) {
    task.data = numbers("kinds.csv", 300, count, 1);
    const TrainingData data = load(task);
    EXPECT_EQ(data.classes.size(), static_cast<std::size_t>(count));
    const bool said = std::any_of(data.notes.begin(), data.notes.end(), [](const std::string& note) {
      return note.find("taken as a class") != std::string::npos;
    });
    EXPECT_EQ(said, count > 20) << count;
  }
  // Per cent of something: many rows each.
  task.data = numbers("percent.csv", 6000, 56, 1);
  EXPECT_COMPLAINT(load(task), "`categorical` 'kind' takes each number as a class");
  task.reading.categorical = {"kind"};
  EXPECT_EQ(load(task).classes.size(), 56U);
}

TEST(TrainingData, NumbersOfALibsvmFileAreClassesWhereNoneIsLeftOut) {
  const auto file = [](int rows, int count, int step) {
    std::string text;
    for (int i = 0; i < rows; ++i) text += fmt::format("{} 1:{} 2:1\n", 1 + step * (i % count), i % 13);
    return write("numbers.svm", text);
  };
  Task task;
  task.data = file(105 * 60, 105, 1);
  const TrainingData data = load(task);
  EXPECT_EQ(data.classes.size(), 105U);
  ASSERT_FALSE(data.notes.empty());
  EXPECT_NE(data.notes.back().find("105 different numbers from 1 to 105"), std::string::npos)
      << data.notes.back();
  task.data = file(105 * 60, 105, 2);
  EXPECT_COMPLAINT(load(task), "a quantity rather than classes");
  EXPECT_COMPLAINT(load(task), "`labels` FILE");
  task.data = file(6000, 1000, 1);
  EXPECT_COMPLAINT(load(task), "a quantity rather than classes");
  // Words for them, in a file of their own.
  std::string words;
  for (int i = 0; i < 6000; ++i) words += fmt::format("kind {}\n", i % 1000);
  task.reading.labels = write("words.txt", words);
  EXPECT_EQ(load(task).classes.size(), 1000U);
}

TEST(TrainingData, MissingCellsGetTheMeansOfTheTrainingRows) {
  Task task;
  task.data = write("holes.csv", "1,2,a\n3,,b\n5,6,a\n,8,b\n");
  task.test = write("holes_test.csv", ",,a\n3,4,b\n");
  task.scaling = Scaling::none;
  task.reading.header = data::Header::no;
  EXPECT_NE(refusal([&] { load(task); }), "accepted");
  task.reading.missing = data::Missing::mean;
  const TrainingData data = load(task);
  EXPECT_EQ(data.train.inputs(1, 1), 16.0f / 3);
  EXPECT_EQ(data.train.inputs(0, 3), 3);
  EXPECT_EQ(data.test.inputs.col(0), (Eigen::Vector2f{3, 16.0f / 3}));
}

/// Rows in memory are the rows of a file.
TEST(TrainingData, RowsInMemoryAreThoseOfAFile) {
  Eigen::MatrixXd rows(40, 2);
  std::vector<std::string> labels;
  std::string text;
  for (Index i = 0; i < 40; ++i) {
    rows.row(i) << static_cast<double>(i % 7), static_cast<double>(i * i % 11);
    labels.push_back(i % 3 == 0 ? "this" : "that");
    text += fmt::format("{},{},{}\n", rows(i, 0), rows(i, 1), labels.back());
  }
  Task task;
  task.data = write("same.csv", text);
  const TrainingData file = load(task), memory = training_data(rows, labels);
  EXPECT_EQ(memory.classes, file.classes);
  EXPECT_EQ(memory.train.labels, file.train.labels);
  EXPECT_EQ(memory.train.inputs, file.train.inputs);
  EXPECT_EQ(memory.test.inputs, file.test.inputs);
  labels.pop_back();
  EXPECT_COMPLAINT(training_data(rows, labels), "40 rows and 39 labels");
}

/// What somebody puts together by hand is looked at before anything is trained, and all of it at once.
TEST(TrainingData, MadeByHandIsChecked) {
  Task task = small_task();
  task.rows = 60;
  task.epochs = 1;
  task.probe = 0;
  const TrainingData good = load(task);
  const TrainSettings settings = resolve_options(task, good);
  EXPECT_TRUE(good.validate().empty());
  TrainingData bad = good;
  bad.train.labels[7] = 10;
  bad.test.labels.pop_back();
  bad.test.labels[0] = -1;
  bad.train.inputs(3, 4) = std::numeric_limits<float>::quiet_NaN();
  bad.shift.resize(3);
  for (const std::string& said : {refusal([&] { train(bad, settings); }), refusal([&] { train(bad, task); })})
    for (const char* part : {"TrainingData.train.labels[7] = 10 must be the number of a class, 0 … 9",
                             "TrainingData.train.inputs = a matrix must hold neither NaN nor infinity",
                             "TrainingData.test.labels = 999 must be as many as there are rows, 1000",
                             "TrainingData.test.labels[0] = -1",
                             "TrainingData.shift = 3 numbers must be one for each of the 144"})
      EXPECT_NE(said.find(part), std::string::npos) << part << "\n" << said;
  bad = good;
  bad.test.inputs.conservativeResize(100, Eigen::NoChange);
  EXPECT_COMPLAINT(train(bad, settings), "test.inputs = 100 features must have the 144 of the training rows");
  bad = good;
  bad.train = {};
  EXPECT_COMPLAINT(train(bad, task), "TrainingData.train.rows = 0 must be at least 1");
  // Settings that were made for other data.
  bad = good;
  bad.classes.push_back("eleven");
  EXPECT_COMPLAINT(train(bad, settings), "train.layers = 144-40-10 must end with the 11 classes");
  // Without test rows there is nothing to probe, and no test error.
  bad = good;
  bad.test = {};
  EXPECT_EQ(train(bad, settings).status, Status::converged);
  EXPECT_TRUE(std::isnan(train(bad, settings).epochs.back().test_error));
  task.probe = 8;
  EXPECT_COMPLAINT(train(bad, task), "train.probe = 8 must be 0 where there are no test rows");
}

}  // namespace training_data_test
