// What `prepare` takes from the target and the options: the model, its penalties, and refusals.

#include <bilevel/models/prepared.hpp>

#include <functional>

#include <gtest/gtest.h>

#include "scratch.hpp"
#include "table.hpp"

namespace bilevel::models {
namespace {

TEST(Prepared, TheModelFollowsFromTheTarget) {
  std::string whole = "a,b,target\n";
  for (int i = 0; i < 40; ++i) whole += fmt::format("{},{},{}\n", i * i % 17, i % 5, i % 4);
  const Prepared numbers = prepare(task_of(write("whole.csv", whole)));
  EXPECT_EQ(numbers.model, Model::ridge);
  ASSERT_FALSE(numbers.notes.empty());
  EXPECT_NE(numbers.notes.back().find("softmax, if its 4 whole numbers are classes"), std::string::npos);
  const auto model = [](int classes) {
    return prepare(task_of(write("model.csv", Table{.classes = classes}.text()))).model;
  };
  EXPECT_EQ(model(2), Model::logistic);
  EXPECT_EQ(model(3), Model::softmax);
  EXPECT_EQ(model(0), Model::ridge);
}

TEST(Prepared, TextThatHardlyRepeatsIsNoted) {
  std::string text = "price,shop,target\n";
  for (int i = 0; i < 60; ++i) text += fmt::format("${}.50,shop{},{}\n", i, i % 4, i % 7);
  const Prepared p = prepare(task_of(write("money.csv", text)));
  ASSERT_FALSE(p.notes.empty());
  EXPECT_NE(p.notes[0].find("'price' is text of 60 different kinds in 60 rows"), std::string::npos)
      << p.notes[0];
  for (const std::string& note : p.notes) EXPECT_EQ(note.find("shop"), std::string::npos) << note;
}

TEST(Prepared, GroupsFromAFileASeparatorOrOneHotColumns) {
  std::string text = "size_x,size_y,colour,target\n";
  const char* colours[] = {"red", "green", "blue"};
  for (int i = 0; i < 30; ++i)
    text += fmt::format("{},{},{},{}\n", i * 7 % 11, i * 5 % 13, colours[i % 3], i % 2 ? "p" : "q");
  Task task = task_of(write("groups.csv", text));
  task.penalty = Penalty::per_group;
  const Prepared origin = prepare(task);
  EXPECT_EQ(origin.hyperparameters, (std::vector<std::string>{"size_x", "size_y", "colour"}));
  EXPECT_EQ(origin.penalties.of, (std::vector<Index>{0, 1, 2, 2, 2}));
  task.group_separator = '_';
  const Prepared separated = prepare(task);
  ASSERT_EQ(separated.hyperparameters.size(), 4U);
  EXPECT_EQ(separated.hyperparameters[0], "size");
  EXPECT_EQ(separated.penalties.of, (std::vector<Index>{0, 0, 1, 2, 3}));
  task.group_separator = 0;
  // A line may name a feature, or the column that a one-hot feature came from.
  task.groups = write("groups.txt", "size_x shape\nsize_y shape\r\n\ncolour=red  warm\ncolour, cold\n");
  const Prepared named = prepare(task);
  ASSERT_EQ(named.hyperparameters.size(), 3U);
  for (std::size_t j = 0; j < named.names.size(); ++j) {
    const std::string& group = named.hyperparameters[static_cast<std::size_t>(named.penalties.of[j])];
    EXPECT_EQ(group, j < 2 ? "shape" : named.names[j] == "colour=red" ? "warm" : "cold") << named.names[j];
  }
  const auto refused = [&](const std::string& lines) -> std::string {
    task.groups = write("groups.txt", lines);
    try {
      prepare(task);
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refused("size_x shape\n").find("no group for 4 feature(s), the first of them 'size_y'"),
            std::string::npos);
  EXPECT_NE(refused("size_x shape\nsize_x form\n").find("line 2"), std::string::npos);
  EXPECT_NE(refused("size_x\n").find("line 1"), std::string::npos);

  task = task_of(write("three.csv", Table{.classes = 3}.text()));
  task.penalty = Penalty::per_class;
  const Prepared classes = prepare(task);
  EXPECT_EQ(classes.hyperparameters, (std::vector<std::string>{"class0", "class1", "class2"}));
  EXPECT_EQ(classes.penalties.of, (std::vector<Index>{0, 1, 2, 0, 1, 2, 0, 1, 2}));
  task.penalty = Penalty::per_feature;
  EXPECT_EQ(prepare(task).penalties.of, (std::vector<Index>{0, 0, 0, 1, 1, 1, 2, 2, 2}));
  task.penalty = Penalty::global;
  EXPECT_EQ(prepare(task).hyperparameters, std::vector<std::string>{"all"});
}

TEST(Prepared, SaysWhatIsWrongAndWhatToDo) {
  const Table plain, numbers{.classes = 0}, three{.classes = 3}, alone{.classes = 1};
  struct Refused {
    std::string text;
    std::function<void(Task&)> change;
    std::string expected, remedy;
  };
  const auto none = [](Task&) {};
  const std::vector<Refused> list{
      {alone.text(), [](Task& t) { t.model = Model::logistic; }, "every row has the label 'class0'",
       "two classes"},
      {plain.text(), [](Task& t) { t.model = Model::ridge; }, "is text", "TuneOptions.model = logistic"},
      {plain.text(), [](Task& t) { t.model = Model::poisson; }, "is text", "ReadOptions.target"},
      {three.text(), [](Task& t) { t.model = Model::logistic; }, "3 values", "TuneOptions.model = softmax"},
      {three.text(), [](Task& t) { t.model = Model::squared_hinge; }, "3 values",
       "TuneOptions.model = softmax"},
      {Table{.rows = 9}.text(), none, "too few for 5 folds", "TuneOptions.folds"},
      {Table{.rows = 1}.text(), none, "", ""},
      {Table{.rows = 2, .classes = 0}.text(), none, "too few", "TuneOptions.test = 0"},
      {plain.text(), [](Task& t) { t.test = "1"; }, "TuneOptions.test = 1", "below 1"},
      {plain.text(), [](Task& t) { t.test = "-0.1"; }, "TuneOptions.test = -0.1", "at least 0"},
      {plain.text(), [](Task& t) { t.validation = "1.5"; }, "TuneOptions.validation = 1.5", "below 1"},
      {plain.text(), [](Task& t) { t.validation = "0"; }, "TuneOptions.validation = 0", "TuneOptions.folds"},
      {plain.text(), [](Task& t) { t.validation = "nowhere.csv"; }, "nowhere.csv", ""},
      {plain.text(), [](Task& t) { t.test = "nowhere.csv"; }, "nowhere.csv", ""},
      {plain.text(), [](Task& t) { t.groups = "nowhere.txt", t.penalty = Penalty::per_group; }, "nowhere.txt",
       ""},
      {plain.text(), [](Task& t) { t.penalty = Penalty::per_class; }, "per-class", "softmax"},
      {plain.text(), [](Task& t) { t.folds = 1; }, "TuneOptions.folds = 1", "at least 2"},
      {plain.text(), [](Task& t) { t.lower = 3, t.upper = 1; }, "TuneOptions.lower = 3",
       "below a finite upper bound, which is 1"},
      {"a,b,target\n1,2,p\n1,2,q\n1,2,p\n1,2,q\n", [](Task& t) { t.folds = 2, t.test = "0"; }, "constant",
       ""},
      {"a,target\n1,-3\n2,4\n3,5\n4,6\n",
       [](Task& t) { t.folds = 2, t.test = "0", t.model = Model::poisson; }, "row 1 has the target -3",
       "0 or more"},
      {"a,target\n1,7\n2,7\n3,7\n4,7\n", [](Task& t) { t.folds = 2, t.test = "0", t.model = Model::ridge; },
       "the target is 7", "nothing to learn"},
      {"part,a,target\nx,1,p\nx,2,q\nx,3,r\ny,4,p\ny,5,q\ny,6,q\n", [](Task& t) { t.reading.split = "part"; },
       "class 'r' does not occur in the training rows of fold 1", "TuneOptions.seed"},
      {"part,a,target\nx,1,p\nx,2,q\n", [](Task& t) { t.reading.split = "part"; }, "two or more folds",
       "validation"},
      {"part,a,target\ntrain,1,p\nval,2,q\nx,2,q\n", [](Task& t) { t.reading.split = "part"; },
       "mixes 'train'", "validation"},
      {"part,a,target\nval,1,p\nx,2,q\n", [](Task& t) { t.reading.split = "part"; }, "no rows called train",
       ""},
      {Table{.split = {"x", "y"}}.text(), [](Task& t) { t.reading.split = "part", t.validation = t.data; },
       "ReadOptions.split and TuneOptions.validation", "one of the two"},
      {Table{.split = {"x", "y"}}.text(), [](Task& t) { t.reading.split = "part", t.validation = "0.3"; },
       "ReadOptions.split and TuneOptions.validation", "one of the two"},
  };
  for (std::size_t k = 0; k < list.size(); ++k) {
    SCOPED_TRACE(fmt::format("case {}: {}", k, list[k].expected));
    Task task = task_of(write("bad.csv", list[k].text));
    list[k].change(task);
    try {
      prepare(task);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const InvalidInput& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(list[k].expected), std::string::npos) << message;
      EXPECT_NE(message.find(list[k].remedy), std::string::npos) << message;
    }
  }
  // A label that only the test file has.
  Task task = task_of(write("bad.csv", plain.text()));
  task.test = write("more.csv", "a,b,c,target\n1,2,3,class0\n1,2,3,class9\n");
  try {
    prepare(task);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InvalidInput& error) {
    EXPECT_NE(std::string(error.what()).find("class9"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("more.csv"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace bilevel::models
