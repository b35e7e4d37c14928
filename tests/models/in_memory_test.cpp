// What a C++ caller does without files: a table in memory gives the same as the same table in a file, bit for
// bit.

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include <bilevel/data/make_dataset.hpp>
#include <bilevel/models/clean.hpp>
#include <bilevel/models/json.hpp>
#include <bilevel/models/problem.hpp>

#include "refusal.hpp"
#include "scratch.hpp"
#include "table.hpp"

namespace bilevel::models {
namespace in_memory_test {

std::vector<std::string> labels_of_table(const Table& table) {
  std::vector<std::string> labels;
  for (Index i = 0; i < table.rows; ++i) labels.push_back(table.target(i));
  return labels;
}

TEST(InMemory, TunesAsTheFileDoes) {
  const Table table{.rows = 60};
  // The file has fewer digits than the table: what it holds is what both learn from.
  const bilevel::data::Dataset read = bilevel::data::read(write("table.csv", table.text()), {});
  const auto made = bilevel::data::make_dataset(read.dense_rows(), labels_of_table(table), {"a", "b", "c"});
  const Tuned file = tune(read), memory = tune(made);
  EXPECT_EQ(file.chosen.theta, memory.chosen.theta);
  EXPECT_EQ(file.chosen.raw, memory.chosen.raw);
  EXPECT_EQ(file.summary.outer_value, memory.summary.outer_value);
  EXPECT_EQ(file.model.text(), memory.model.text());
  EXPECT_EQ(file.trustworthy(), memory.trustworthy());
  EXPECT_EQ(memory.model.names(), (std::vector<std::string>{"a", "b", "c"}));

  const std::string path = scratch("in_memory.json");
  memory.save(path);
  const SavedModel back = SavedModel::load(path);
  const Predictions from_file = back.predict(back.read(scratch("table.csv"))),
                    from_memory = memory.predict(Eigen::MatrixXd(read.dense_rows()));
  EXPECT_EQ(from_file.values, from_memory.values);
  EXPECT_EQ(from_file.probabilities, from_memory.probabilities);
  for (Index i = 0; i < table.rows; ++i)
    EXPECT_EQ(from_memory.values[i], from_memory.probabilities(i, 1) > 0.5 ? 1 : 0) << i;
  EXPECT_THROW(back.predict(Eigen::MatrixXd::Zero(2, 4)), InvalidInput);
}

/// A table filled in by hand may be anything; all that is wrong with it is said before anything is read from
/// it.
TEST(InMemory, PartsThatDoNotFitAreRefused) {
  const Table table{.rows = 40};
  const auto good = bilevel::data::make_dataset(table.values(), labels_of_table(table), {"a", "b", "c"});
  using Change = std::function<void(bilevel::data::Dataset&)>;
  const auto said = [&](const Change& change) {
    auto data = good;
    change(data);
    return refusal([&] { tune(data); });
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::pair<Change, std::string>> cases{
      {[](auto& d) { d.weights = Vec::Ones(39); }, "Dataset.weights = 39 must be one for each of 40 rows"},
      {[](auto& d) { d.weights = Vec::Constant(40, -1); },
       "Dataset.weights = -1 must be finite and not negative"},
      {[](auto& d) { d.offsets = Vec::Zero(1); }, "Dataset.offsets = 1 must be one for each of 40 rows"},
      {[&](auto& d) { d.offsets = Vec::Constant(40, nan); }, "Dataset.offsets = nan must be finite (row 1)"},
      {[](auto& d) { d.names.pop_back(); }, "Dataset.names = 2 must be one for each of 3 features"},
      {[](auto& d) { d.target[3] = 2; }, "Dataset.target = 2 must be the number of one of 2 levels (row 4)"},
      {[&](auto& d) { d.target[3] = nan; }, "Dataset.target = nan must be the number of one of 2 levels"},
      {[](auto& d) { d.split.assign(40, 0); },
       "Dataset.split = 0 must be the number of one of 0 split_levels"},
      {[](auto& d) { d.split.assign(3, 0), d.split_levels = {"a"}; },
       "Dataset.split = 3 must be one for each"},
  };
  for (const auto& [change, expected] : cases)
    EXPECT_NE(said(change).find(expected), std::string::npos) << said(change);
  const auto clean_said = refusal([&] {
    auto data = good;
    data.names.clear();
    prepare_clean(data, {.trusted = 10});
  });
  EXPECT_NE(clean_said.find("Dataset.names = 0"), std::string::npos) << clean_said;
  EXPECT_EQ(good.validate().texts(), std::vector<std::string>{});
}

/// Data that were prepared for one model are not tuned as another's; a function that says nothing is as good
/// as none.
TEST(InMemory, PreparedDataBelongToTheirOptions) {
  const Eigen::MatrixXd x = Table{.classes = 0}.values();
  const TuneOptions options{.model = Model::ridge, .penalty = Penalty::global, .grid = 3};
  const Prepared prepared =
      prepare(bilevel::data::make_dataset(x, Vec(x.col(0) + 0.1 * x.col(1).cwiseAbs2())), options);
  TuneOptions other = options;
  other.penalty = Penalty::per_feature;
  EXPECT_NE(refusal([&] { tune(prepared, other); }).find("TuneOptions.penalty = per-feature must be global"),
            std::string::npos);
  other = options;
  other.model = Model::huber;
  EXPECT_NE(refusal([&] { pose(prepared, other); }).find("TuneOptions.model = huber must be ridge"),
            std::string::npos);
  EXPECT_NE(refusal([&] { tune(Prepared{}, options); }).find("call prepare(data, options) first"),
            std::string::npos);
  EXPECT_TRUE(tune(prepared, options, {.progress = {}, .interrupted = {}}).trustworthy());
}

/// Penalties can be right, and certified, and the model of no use.
TEST(InMemory, AModelWorseThanTheMeanIsSaid) {
  const Table table{.rows = 200, .classes = 0};
  const Eigen::MatrixXd x = table.values();
  Vec y = x.col(0);
  const TuneOptions options{.model = Model::ridge, .penalty = Penalty::global};
  const auto warned = [&] {
    const Tuned r = tune(bilevel::data::make_dataset(x, y), options);
    return std::any_of(r.warnings.begin(), r.warnings.end(), [](const std::string& w) {
      return w.find("on the test rows the model is worse than their mean") != std::string::npos;
    });
  };
  EXPECT_FALSE(warned());
  y[0] = 1e9;
  EXPECT_TRUE(warned());
}

TEST(InMemory, MissingCellsAreRefusedOrFilled) {
  Eigen::MatrixXd x = Table{.classes = 0}.values();
  const Eigen::VectorXd y = 2 * x.col(0) + Eigen::VectorXd::LinSpaced(40, 0, 1);
  x(3, 1) = std::numeric_limits<double>::quiet_NaN();
  try {
    tune(bilevel::data::make_dataset(x, y));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InvalidInput& error) {
    EXPECT_NE(std::string(error.what()).find("row 4 has the value nan in 'x2'"), std::string::npos)
        << error.what();
  }
  const Tuned filled = tune(bilevel::data::make_dataset(x, y), {.missing = bilevel::data::Missing::mean});
  EXPECT_TRUE(filled.predict(x).values.allFinite());
}

/// The message of what is thrown; empty where nothing is.
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return {};
}

TEST(InMemory, AModelThatRefusedMissingCellsRefusesThemInNewRows) {
  Eigen::MatrixXd x = Table{.classes = 0}.values();
  const Eigen::VectorXd y = 2 * x.col(0) + Eigen::VectorXd::LinSpaced(40, 0, 1);
  SavedModel model = tune(bilevel::data::make_dataset(x, y)).model;
  x(3, 1) = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(refusal([&] { model.predict(x); }).find("row 4"), std::string::npos);
  model.imputes = true;
  EXPECT_TRUE(model.predict(x).values.allFinite());
}

TEST(InMemory, ARunThatEndedBeforeAFitHasNoModel) {
  const Eigen::MatrixXd x = Table{.classes = 0}.values();
  const Eigen::VectorXd y = 2 * x.col(0);
  const Tuned none = tune(bilevel::data::make_dataset(x, y), {.seconds = 1e-9});
  ASSERT_FALSE(none.chosen.fitted);
  const std::string path = scratch("none.json");
  for (const std::string& why : {refusal([&] { none.predict(x); }), refusal([&] { none.save(path); }),
                                 refusal([&] { margins(none.model, bilevel::data::make_dataset(x, y)); })})
    EXPECT_NE(why.find("no model was fitted, the run ended as 'time-limit'"), std::string::npos) << why;
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(InMemory, NamesThatJsonCannotHoldAreRefusedBeforeTheWork) {
  const Eigen::MatrixXd x = Table{.classes = 0}.values();
  const Eigen::VectorXd y = 2 * x.col(0);
  const Prepared p = prepare(bilevel::data::make_dataset(x, y, {"gr\xf6\xdf", "b", "c"}), {});
  EXPECT_NE(refusal([&] { require_savable(p); }).find("is no UTF-8"), std::string::npos);
  const Tuned tuned = tune(p, {});
  EXPECT_NE(refusal([&] { tuned.model.text(); }).find("iconv"), std::string::npos);
  EXPECT_NE(as_json(p, {}, tuned).find("\"command\": \"tune\""), std::string::npos);
}

TEST(InMemory, MissingCellsAreRefusedInSparseTablesToo) {
  Eigen::MatrixXd x = Table{.classes = 0}.values();
  const Eigen::VectorXd y = 2 * x.col(0);
  x(5, 2) = std::numeric_limits<double>::quiet_NaN();
  bilevel::data::Dataset table = bilevel::data::make_dataset(x, y);
  table.x = bilevel::data::SparseRows(x.sparseView());
  EXPECT_NE(refusal([&] { prepare(table, {}); }).find("row 6 has the value nan"), std::string::npos);
}

TEST(InMemory, CleaningRefusesMissingCells) {
  Eigen::MatrixXd x = Table{}.values();
  x(5, 2) = std::numeric_limits<double>::quiet_NaN();
  const auto table = bilevel::data::make_dataset(x, labels_of_table(Table{}), {"a", "b", "c"});
  const std::string why = refusal([&] { clean(table, {.trusted = 10}); });
  EXPECT_NE(why.find("row 6 has the value nan in 'c'"), std::string::npos) << why;
  EXPECT_NE(why.find("CleanOptions.missing = mean"), std::string::npos) << why;
  EXPECT_NO_THROW(clean(table, {.trusted = 10, .missing = bilevel::data::Missing::mean}));
}

TEST(InMemory, RowsToJudgeByAndForTheTestMayBeTables) {
  const Eigen::MatrixXd x = Table{.rows = 90, .classes = 0}.values();
  const Eigen::VectorXd y = 2 * x.col(0) + 10 * x.col(2);
  const auto rows = [&](Index first, Index count) {
    return bilevel::data::make_dataset(x.middleRows(first, count), y.segment(first, count));
  };
  TuningData data(rows(0, 50));
  data.validation = rows(50, 25);
  data.test = rows(75, 15);
  const Prepared p = prepare(data, {});
  EXPECT_EQ(p.training_rows, 50);
  EXPECT_EQ(p.validation_rows, 25);
  EXPECT_EQ(p.test_rows, 15);
  data.test = bilevel::data::make_dataset(x.leftCols(2), y);
  EXPECT_THROW(prepare(data, {}), InvalidInput);
}

TEST(InMemory, CleansATable) {
  std::mt19937_64 engine(4);
  std::normal_distribution<double> normal;
  Eigen::MatrixXd x(300, 2);
  std::vector<std::string> labels;
  for (Index i = 0; i < 300; ++i) {
    const bool up = i % 2 == 0;
    x.row(i) << (up ? 4 : -4) + normal(engine), normal(engine);
    labels.push_back(up != (i < 200 && i % 10 == 3) ? "up" : "down");
  }
  const auto part = [&](Index first, Index count) {
    const std::vector<std::string> some(labels.begin() + first, labels.begin() + first + count);
    return bilevel::data::make_dataset(x.middleRows(first, count), some);
  };
  CleaningData data(part(0, 200));
  data.trusted = part(200, 100);
  const Cleaned found = clean(data, {});
  EXPECT_TRUE(found.trustworthy()) << found.summary.message;
  std::vector<Index> planted;
  for (Index i = 0; i < 200; ++i)
    if (i % 10 == 3) planted.push_back(i + 1);
  EXPECT_EQ(found.flagged_rows, planted);
  // The ranking of the program, from the result alone.
  for (Index k = 0; k < found.flagged; ++k) {
    const Index i = found.order[static_cast<std::size_t>(k)];
    const Index row = found.rows[static_cast<std::size_t>(i)];
    EXPECT_EQ(found.label(i), labels[static_cast<std::size_t>(row - 1)]);
    EXPECT_NE(found.label(i), found.prediction(i));
    EXPECT_TRUE(std::binary_search(planted.begin(), planted.end(), row)) << row;
  }
}

TEST(InMemory, TablesThatDoNotFitAreRefused) {
  const Eigen::MatrixXd x = Eigen::MatrixXd::Random(4, 2);
  EXPECT_THROW(bilevel::data::make_dataset(x, Eigen::VectorXd::Zero(3)), InvalidInput);
  EXPECT_THROW(bilevel::data::make_dataset(x, Eigen::VectorXd::Zero(4), {"one"}), InvalidInput);
  EXPECT_THROW(bilevel::data::make_dataset(x, Eigen::VectorXd::Zero(4), {"one", "one"}), InvalidInput);
}

}  // namespace in_memory_test
}  // namespace bilevel::models
