#include <bilevel/adjoint/linear_run.hpp>
#include "training_cases.hpp"

#include <nlohmann/json.hpp>

namespace saved_network_test {

using namespace training_cases;

TEST(SavedNetwork, ComesBackAsItWas) {
  Task task = small_task();
  const TrainSettings settings = resolve_options(task, 20, 100, 4);
  SavedNetwork saved{settings.architecture,
                     settings.propagation.free,
                     initial_parameters(settings.architecture, 3).cast<float>(),
                     {"a", "b", "c", "d"},
                     Eigen::VectorXd::Random(20),
                     Eigen::VectorXd::Random(20),
                     {},
                     {}};
  const std::string text = saved.text("0"), path = write("net.json", text);
  const SavedNetwork back = read_network(path);
  EXPECT_EQ(back.theta, saved.theta);
  EXPECT_EQ(back.architecture.layers, settings.architecture.layers);
  EXPECT_EQ(back.shift, saved.shift);
  for (std::size_t cut = 0; cut + 2 < text.size(); cut += 211)
    EXPECT_NE(refusal([&] { read_network(write("cut.json", text.substr(0, cut))); }), "accepted") << cut;
  EXPECT_COMPLAINT(read_network(scratch("none.json")), "written by bilevel train --save");
  const auto with = [&](const std::string& what, const std::string& by) {
    std::string changed = text;
    changed.replace(changed.find(what), what.size(), by);
    return write("with.json", changed);
  };
  EXPECT_COMPLAINT(read_network(with("\"free_steps\": ", "\"free_steps\": 9999999")),
                   "free_steps, and 100000 are the most");
  EXPECT_COMPLAINT(read_network(with("\"free_steps\": ", "\"free_steps\": 0.5e")), "whole number");
  // 2³² − 16: products of such sizes wrap around to those of the weights.
  EXPECT_COMPLAINT(read_network(with("  20,\n", "  20,\n  4611686018427387904,\n")), "ten million");
}

TEST(SavedNetwork, ColumnsMustFitTheFirstLayer) {
  Task task = small_task();
  task.data = write("columns.csv", "a,b,c,label\n1,2,3,x\n2,1,3,y\n3,1,2,x\n1,3,2,y\n2,2,1,x\n");
  task.rows = 0;
  task.layers = {4};
  const TrainingData data = load(task);
  const TrainSettings settings = resolve_options(task, data);
  const SavedNetwork saved{settings.architecture,
                           settings.propagation.free,
                           initial_parameters(settings.architecture, 3).cast<float>(),
                           data.classes,
                           data.shift,
                           data.factor,
                           {},
                           data.schema};
  const std::string text = saved.text("0");
  EXPECT_EQ(read_network(write("whole.json", text)).schema.columns.size(), 4U);
  nlohmann::ordered_json j = nlohmann::ordered_json::parse(text);
  j["schema"]["columns"].erase(1);
  EXPECT_COMPLAINT(read_network(write("less.json", j.dump())), "there must be 3");
  data::Dataset two;
  two.x = data::DenseRows(data::DenseRows::Ones(5, 2));
  EXPECT_COMPLAINT(saved.outputs(two), "has 2 features, the network takes 3");
}

TEST(SavedNetwork, SaysOfRowsWhatTrainingSaid) {
  std::string text = "size,colour,kind\n", rows = "kind,colour,size\n";
  for (int i = 0; i < 120; ++i) {
    const char* const colour = i % 2 == 0 ? "red" : "blue";
    const char* const kind = (i % 2 == 0) == (i % 7 < 3) ? "this" : "that";
    text += fmt::format("{},{},{}\n", i % 7, colour, kind);
    rows += fmt::format("{},{},{}\n", kind, colour, i % 7);
  }
  Task task;
  task.data = write("kinds.csv", text);
  task.test = write("rows.csv", rows);  // the same rows, the columns in another order
  task.layers = {16};
  task.epochs = 5;
  task.probe = 0;
  const TrainingData data = load(task);
  const TrainedNetwork result = train(data, task);
  const std::string path = write("kinds.json", result.network.text("0"));
  EXPECT_TRUE(is_network(path));
  EXPECT_FALSE(is_network(task.data));
  const SavedNetwork back = read_network(path);
  data::ReadOptions reading;
  reading.target_optional = true;
  const auto again = data::read(task.test, reading, &back.schema);
  EXPECT_EQ(back.outputs(again), result.outputs);
  const std::vector<std::string> answers = back.predict(again);
  ASSERT_EQ(answers.size(), result.predicted.size());
  for (std::size_t i = 0; i < answers.size(); ++i)
    EXPECT_EQ(answers[i], data.classes[static_cast<std::size_t>(result.predicted[i])]);
  // And from memory, in the order of the first file's columns.
  EXPECT_EQ(back.predict(Eigen::MatrixXd(again.dense_rows())), answers);
}

/// Missing cells mean to a network in C++ what they mean to the program.
TEST(SavedNetwork, MissingCellsGetTheMeansOfTheTrainingRows) {
  const double hole = std::numeric_limits<double>::quiet_NaN();
  Eigen::MatrixXd rows(60, 2);
  std::vector<std::string> labels;
  for (Index i = 0; i < rows.rows(); ++i) {
    rows.row(i) << static_cast<double>(i % 7), i % 9 == 0 ? hole : static_cast<double>(i % 5);
    labels.push_back(i % 7 < 3 ? "low" : "high");
  }
  TrainOptions options;
  options.layers = {8};
  options.epochs = 3;
  options.probe = 0;
  options.activation = Activation::tanh;
  const TrainingData data = training_data(rows, labels, {.impute = true});
  const SavedNetwork network = train(data, options).network;
  Eigen::MatrixXd holes(2, 2), filled(2, 2);
  holes << 3, hole, hole, 2;
  filled << 3, network.imputed[1], network.imputed[0], 2;
  EXPECT_EQ(network.outputs(holes), network.outputs(filled));
  EXPECT_EQ(network.predict(holes), network.predict(filled));
  data::Dataset table;
  table.x = data::DenseRows(holes);
  const models::Predictions said = network.predictions(table);
  ASSERT_EQ(said.probabilities.rows(), 2);
  EXPECT_NEAR(said.probabilities.row(1).sum(), 1, 1e-12);
  EXPECT_GT(said.probabilities(0, static_cast<Index>(said.values[0])), 0.5);
  EXPECT_COMPLAINT(network.read("rows.csv"), "trained on drawn pictures or on rows in memory");
  SavedNetwork strict = network;
  strict.imputed.resize(0);
  EXPECT_COMPLAINT(strict.outputs(holes), "row 1 has a value that is missing or too large");
}

/// A row without a finite answer has no class, not the first one.
TEST(SavedNetwork, WithoutAFiniteOutputThereIsNoClass) {
  Task task = small_task();
  task.activation = Activation::tanh;
  const TrainSettings settings = resolve_options(task, 5, 100, 2);
  SavedNetwork network{.architecture = settings.architecture,
                       .free = settings.propagation.free,
                       .theta = Eigen::VectorXf::Constant(settings.architecture.parameters(), 3e38f),
                       .classes = {"a", "b"},
                       .shift = Eigen::VectorXd::Zero(5),
                       .factor = Eigen::VectorXd::Ones(5)};
  EXPECT_COMPLAINT(network.predict(Eigen::MatrixXd::Ones(2, 5)), "row 1 gives no finite prediction");
}

TEST(SavedNetwork, NamesThatAreNoUtf8AreWrittenAllTheSame) {
  Task task = small_task();
  const TrainSettings settings = resolve_options(task, 2, 100, 2);
  SavedNetwork network{.architecture = settings.architecture,
                       .free = settings.propagation.free,
                       .theta = initial_parameters(settings.architecture, 3).cast<float>(),
                       .classes = {"caf\xe9", "tea"},
                       .shift = Eigen::VectorXd::Zero(2),
                       .factor = Eigen::VectorXd::Ones(2)};
  const SavedNetwork back = read_network(write("latin.json", network.text("0")));
  EXPECT_EQ(back.classes, (std::vector<std::string>{"caf\xef\xbf\xbd", "tea"}));
  EXPECT_EQ(back.theta, network.theta);
}

}  // namespace saved_network_test
