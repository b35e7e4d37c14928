// What `prepare` makes of a file: who trains, who judges, who is kept for the test, and what is learned from
// whom.

#include <bilevel/models/prepared.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "scratch.hpp"
#include "table.hpp"

namespace bilevel::models {
namespace prepared_test {

using bilevel::data::Missing;
using bilevel::data::Storage;

std::vector<Index> rows_in(const std::vector<RowRange>& ranges) {
  std::vector<Index> rows;
  for (const auto& [first, last] : ranges)
    for (Index i = first; i < last; ++i) rows.push_back(i);
  return rows;
}

/// The features of row i as the file has them.
Vec raw(const Prepared& p, Index i) {
  Vec out = Vec::Zero(static_cast<Index>(p.names.size()));
  p.samples.matrix->for_each(i, [&](Index j, double value) { out[j] = value; });
  return out.cwiseProduct(p.stored_scale) + p.stored_shift;
}

Vec standardised(const Prepared& p, const Split& part, Index i) {
  Vec out = Vec::Zero(static_cast<Index>(p.names.size()));
  p.samples.matrix->for_each(i, [&](Index j, double value) { out[j] = value; });
  return (out - part.standardisation.shift).cwiseProduct(part.standardisation.inverse_scale);
}

/// Everybody has one place: in the folds (or training and validation), or in the test.
void expect_partition(const Prepared& p, Index rows) {
  ASSERT_EQ(static_cast<Index>(p.source_rows.size()), p.training_rows + p.validation_rows + p.test_rows);
  ASSERT_EQ(p.samples.matrix->rows(), p.training_rows + p.validation_rows + p.test_rows);
  std::multiset<Index> sources(p.source_rows.begin(), p.source_rows.end());
  EXPECT_EQ(static_cast<Index>(sources.size()), rows);
  std::multiset<Index> expected;
  for (Index i = 1; i <= rows; ++i) expected.insert(i);
  EXPECT_EQ(sources, expected) << "each row of the file exactly once";
  std::multiset<Index> judges;
  for (const Split& part : p.folds) {
    std::vector<Index> both = rows_in(part.training);
    EXPECT_FALSE(both.empty());
    for (const Index i : rows_in(part.validation)) both.push_back(i), judges.insert(i);
    const std::set<Index> distinct(both.begin(), both.end());
    EXPECT_EQ(distinct.size(), both.size()) << "nobody trains and judges";
    EXPECT_EQ(static_cast<Index>(both.size()), p.training_rows + p.validation_rows);
    EXPECT_LT(*distinct.rbegin(), p.training_rows + p.validation_rows) << "no test row takes part";
    EXPECT_LE(part.training.size(), 2U);
  }
  EXPECT_EQ(std::set<Index>(judges.begin(), judges.end()).size(), judges.size()) << "everybody judges once";
  EXPECT_EQ(static_cast<Index>(judges.size()), p.held_out ? p.validation_rows : p.training_rows);
  EXPECT_EQ(p.has_test, p.test_rows > 0);
  if (p.has_test) {
    const std::vector<Index> test = rows_in(p.final.validation);
    EXPECT_EQ(static_cast<Index>(test.size()), p.test_rows);
    const std::vector<Index> kept = rows_in(p.final.training);
    for (const Index i : test) EXPECT_EQ(std::find(kept.begin(), kept.end(), i), kept.end());
  }
}

void expect_standardised(const Prepared& p, const Split& part) {
  const std::vector<Index> rows = rows_in(part.training);
  Vec mean = Vec::Zero(static_cast<Index>(p.names.size())), square = mean;
  for (const Index i : rows) {
    const Vec z = standardised(p, part, i);
    mean += z / static_cast<double>(rows.size());
    square += z.cwiseAbs2() / static_cast<double>(rows.size());
  }
  EXPECT_LE(mean.lpNorm<Eigen::Infinity>(), 1e-10);
  for (Index j = 0; j < square.size(); ++j)
    if (part.standardisation.inverse_scale[j] > 0) {
      EXPECT_NEAR(square[j], 1, 1e-10) << p.names[static_cast<std::size_t>(j)];
    }
}

TEST(Prepared, KFoldsUseEveryRowOnce) {
  for (const int folds : {2, 3, 5, 7})
    for (const char* test : {"0", "0.2", "0.33"})
      for (const Storage storage : {Storage::dense, Storage::sparse}) {
        SCOPED_TRACE(fmt::format("{} folds, test {}, storage {}", folds, test, static_cast<int>(storage)));
        Task task = task_of(write("folds.csv", Table{}.text()));
        task.folds = folds;
        task.test = test;
        task.reading.storage = storage;
        const Prepared p = prepare(task);
        ASSERT_EQ(p.folds.size(), static_cast<std::size_t>(folds));
        EXPECT_FALSE(p.held_out);
        EXPECT_TRUE(p.refits);
        EXPECT_EQ(p.test_rows, std::llround(40 * std::stod(test)));
        expect_partition(p, 40);
        for (const Split& part : p.folds) expect_standardised(p, part);
        expect_standardised(p, p.final);
        EXPECT_EQ(rows_in(p.final.training).size(), static_cast<std::size_t>(p.training_rows));
        const Eigen::MatrixXd x = Table{}.values();
        for (Index i = 0; i < 40; ++i) {
          const Index source = p.source_rows[static_cast<std::size_t>(i)] - 1;
          EXPECT_LE((raw(p, i) - x.row(source).transpose()).norm(), 1e-12 * x.row(source).norm());
          EXPECT_EQ(p.classes[static_cast<std::size_t>((*p.samples.classes)[static_cast<std::size_t>(i)])],
                    Table{}.target(source));
        }
        // Stratified: the classes' shares differ by at most one row.
        for (const Split& part : p.folds) {
          long difference = 0;
          for (const Index i : rows_in(part.validation))
            difference += (*p.samples.classes)[static_cast<std::size_t>(i)] ? 1 : -1;
          EXPECT_LE(std::abs(difference), 2);
        }
      }
}

TEST(Prepared, HoldOutAndRefit) {
  Task task = task_of(write("held.csv", Table{.classes = 0}.text()));
  task.validation = "0.25";
  task.model = Model::ridge;
  const Prepared p = prepare(task);
  EXPECT_TRUE(p.held_out);
  EXPECT_FALSE(p.refits);
  EXPECT_EQ(p.test_rows, 8);
  EXPECT_EQ(p.validation_rows, 8);
  EXPECT_EQ(p.training_rows, 24);
  expect_partition(p, 40);
  expect_standardised(p, p.folds[0]);
  EXPECT_EQ(p.final.training, p.folds[0].training);
  // The target of the training rows has mean 0 and deviation 1.
  const auto y = p.samples.labels->head(24).array();
  EXPECT_NEAR(y.mean(), 0, 1e-12);
  EXPECT_NEAR(std::sqrt(y.square().mean()), 1, 1e-12);
  EXPECT_NEAR((*p.samples.labels)[30] * p.target_scale + p.target_shift,
              std::stod(Table{.classes = 0}.target(p.source_rows[30] - 1)), 1e-12);
  task.refit = true;
  const Prepared again = prepare(task);
  EXPECT_TRUE(again.refits);
  EXPECT_EQ(rows_in(again.final.training).size(), 32U);
  EXPECT_EQ(again.source_rows, p.source_rows) << "the same seed, the same rows";
  task.seed = 2;
  EXPECT_NE(prepare(task).source_rows, p.source_rows);
}

TEST(Prepared, ASplitColumnDecides) {
  Task task = task_of(write("split.csv", Table{.split = {"train", "Train", "validation", "TEST"}}.text()));
  task.reading.split = "part";
  const Prepared p = prepare(task);
  EXPECT_TRUE(p.held_out);
  EXPECT_EQ(p.training_rows, 20);
  EXPECT_EQ(p.validation_rows, 10);
  EXPECT_EQ(p.test_rows, 10);
  expect_partition(p, 40);
  EXPECT_EQ(p.names, (std::vector<std::string>{"a", "b", "c"})) << "the column is no feature";
  for (const Index i : rows_in(p.final.validation))
    EXPECT_EQ(p.source_rows[static_cast<std::size_t>(i)] % 4, 0);

  task.data = write("split.csv", Table{.split = {"x", "y", "z", "test", "x"}}.text());
  const Prepared folds = prepare(task);
  EXPECT_FALSE(folds.held_out);
  EXPECT_EQ(folds.folds.size(), 3U);
  EXPECT_EQ(folds.test_rows, 8);
  expect_partition(folds, 40);
  for (const Split& part : folds.folds) expect_standardised(folds, part);
  EXPECT_EQ(rows_in(folds.folds[0].validation).size(), 16U);

  // Rows to train on and to test by, none to judge by: either folds of the training rows or a word about it.
  task.data = write("split.csv", Table{.split = {"train", "test"}}.text());
  try {
    expect_partition(prepare(task), 40);
  } catch (const InvalidInput& error) {
    EXPECT_NE(std::string(error.what()).find("validation"), std::string::npos) << error.what();
  }
}

TEST(Prepared, FilesForValidationAndTest) {
  const Task base = task_of(write("first.csv", Table{}.text()));
  Task task = base;
  task.validation = write("second.csv", Table{.rows = 12}.text());
  task.test = write("third.csv", Table{.rows = 6}.text());
  const Prepared p = prepare(task);
  EXPECT_EQ(p.training_rows, 40);
  EXPECT_EQ(p.validation_rows, 12);
  EXPECT_EQ(p.test_rows, 6);
  EXPECT_TRUE(p.held_out);
  expect_standardised(p, p.folds[0]);
  EXPECT_EQ(rows_in(p.folds[0].training).size(), 40U);
  EXPECT_EQ(p.source_rows[40], 1);
  EXPECT_EQ(p.source_rows[52], 1);
  // Columns are found by their names, whatever their order.
  std::string shuffled = "target,c,a,b\n";
  const Eigen::MatrixXd x = Table{}.values();
  for (Index i = 0; i < 6; ++i)
    shuffled += fmt::format("{},{},{},{}\n", Table{}.target(i), x(i, 2), x(i, 0), x(i, 1));
  task.test = write("third.csv", shuffled);
  const Prepared other = prepare(task);
  for (Index i = 52; i < 58; ++i) EXPECT_LE((raw(other, i) - raw(p, i)).norm(), 1e-12);

  task = base;
  task.test = write("third.csv", Table{.rows = 6}.text());
  const Prepared k = prepare(task);
  EXPECT_EQ(k.folds.size(), 5U);
  EXPECT_EQ(k.training_rows, 40);
  EXPECT_EQ(k.test_rows, 6);
}

TEST(Prepared, NothingIsLearnedFromRowsThatJudge) {
  // Of part k, in the file's own units.
  const auto scale = [](const Prepared& p, std::size_t k) {
    return Vec(p.stored_scale.cwiseQuotient(p.folds[k].standardisation.inverse_scale));
  };
  const auto shift = [](const Prepared& p, std::size_t k) {
    return Vec(p.stored_shift + p.stored_scale.cwiseProduct(p.folds[k].standardisation.shift));
  };
  const std::vector<std::string> split{"train", "validation", "test", "train"};
  const auto with = [&](Index row, double value, Storage storage) {
    Table table{.split = split};
    table.change = [=](Eigen::MatrixXd& x) {
      if (row >= 0) x.row(row).setConstant(value);
    };
    Task task = task_of(write("leak.csv", table.text()));
    task.reading.split = "part";
    task.reading.storage = storage;
    return prepare(task);
  };
  for (const Storage storage : {Storage::dense, Storage::sparse}) {
    const Prepared before = with(-1, 0, storage);
    for (const Index row : {1, 2}) {  // one that validates, one that tests
      const Prepared after = with(row, 1e6, storage);
      EXPECT_EQ(after.stored_shift, before.stored_shift);
      EXPECT_EQ(after.stored_scale, before.stored_scale);
      EXPECT_EQ(after.folds[0].standardisation.shift, before.folds[0].standardisation.shift);
      EXPECT_EQ(after.folds[0].standardisation.inverse_scale, before.folds[0].standardisation.inverse_scale);
      for (Index i = 0; i < before.training_rows; ++i) EXPECT_EQ(raw(after, i), raw(before, i));
    }
    EXPECT_NE(scale(with(0, 1e6, storage), 0), scale(before, 0)) << "a training row does matter";
  }
  // In K folds a row must not reach the standardisation of the part that it judges.
  const auto folds = [&](double value) {
    Table table{.split = {"x", "y"}};
    table.change = [=](Eigen::MatrixXd& x) { x(0, 1) += value; };
    Task task = task_of(write("leak.csv", table.text()));
    task.reading.split = "part";
    return prepare(task);
  };
  const Prepared before = folds(0), after = folds(1000);
  EXPECT_LE((scale(after, 0) - scale(before, 0)).norm(), 1e-11 * scale(before, 0).norm());
  EXPECT_LE((shift(after, 0) - shift(before, 0)).norm(), 1e-11 * shift(before, 0).norm());
  EXPECT_GT((scale(after, 1) - scale(before, 1)).norm(), 1) << "the other part trains on it";
}

TEST(Prepared, ConstantColumnsAreNamedAndSilentOnesKept) {
  Table table{.split = {"x", "y", "test"}};
  table.change = [](Eigen::MatrixXd& x) {
    x.col(0).setConstant(4);  // but for a test row, which nobody may look at
    x(2, 0) = 5;
    for (Index i = 0; i < x.rows(); ++i) x(i, 2) = i == 1 ? 1 : 0;  // changes in fold y alone
  };
  Task task = task_of(write("constant.csv", table.text()));
  task.reading.split = "part";
  for (const Storage storage : {Storage::dense, Storage::sparse}) {
    task.reading.storage = storage;
    const Prepared p = prepare(task);
    EXPECT_EQ(p.constant, std::vector<std::string>{"a"});
    EXPECT_EQ(p.names, (std::vector<std::string>{"b", "c"}));
    EXPECT_EQ(p.columns, (std::vector<Index>{1, 2}));
    EXPECT_EQ(p.penalties.count, 2);
    EXPECT_EQ(p.folds[1].standardisation.inverse_scale[1], 0) << "trains on x, where c never changes";
    EXPECT_GT(p.folds[0].standardisation.inverse_scale[1], 0);
    expect_standardised(p, p.folds[0]);
  }
  task.standardize = false;
  const Prepared plain = prepare(task);
  EXPECT_TRUE(plain.constant.empty());
  EXPECT_EQ(plain.folds[0].standardisation.inverse_scale, Vec(Vec::Ones(3)));
}

TEST(Prepared, WhereMostCellsOfAColumnAgreeOnlyTheOthersAreStored) {
  // Twenty columns of two values, one in fifteen of them the rarer, and one of numbers.
  std::mt19937_64 engine(3);
  std::normal_distribution<double> normal;
  const Index rows = 300, flags = 20;
  std::string text;
  for (Index j = 0; j < flags; ++j) text += fmt::format("f{},", j);
  text += "x,target\n";
  Eigen::MatrixXd cells(rows, flags + 1);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < flags; ++j) text += fmt::format("{},", cells(i, j) = engine() % 15 ? -0.25 : 3.5);
    text += fmt::format("{},{}\n", cells(i, flags) = 5 + normal(engine), i % 2);
  }
  Task task = task_of(write("flags.csv", text));
  for (const bool standardize : {true, false}) {
    task.standardize = standardize;
    task.reading.storage = Storage::automatic;
    const Prepared p = prepare(task);
    EXPECT_TRUE(p.samples.matrix->sparse());
    EXPECT_EQ(p.storage, "sparse");
    EXPECT_LT(p.nonzeros, rows * (flags + 1) * 15 / 100);
    for (Index i = 0; i < rows; ++i)
      EXPECT_LE((raw(p, i) - cells.row(p.source_rows[static_cast<std::size_t>(i)] - 1).transpose()).norm(),
                1e-14);
    if (standardize)
      for (const Split& part : p.folds) expect_standardised(p, part);
    task.reading.storage = Storage::dense;
    EXPECT_FALSE(prepare(task).samples.matrix->sparse());
  }
  // Too many cells are left: dense.
  task.reading.storage = Storage::automatic;
  task.data = write("plain.csv", Table{}.text());
  EXPECT_FALSE(prepare(task).samples.matrix->sparse());
}

TEST(Prepared, MissingCellsGetTheMeanOfTheTrainingRows) {
  std::string text = "part,a,b,target\n";
  const char* cells[] = {"1", "", "3", "100", "5", "200"};
  for (int i = 0; i < 24; ++i)
    text += fmt::format("{},{},{},{}\n",
                        i % 6 == 3   ? "test"
                        : i % 6 == 5 ? "validation"
                                     : "train",
                        cells[i % 6], i * i % 7, i % 4 < 2 ? "p" : "q");
  Task task = task_of(write("missing.csv", text));
  task.reading.split = "part";
  EXPECT_THROW(prepare(task), InvalidInput) << "refused unless asked for";
  task.reading.missing = Missing::mean;
  const Prepared p = prepare(task);
  ASSERT_EQ(p.imputed.size(), 2);
  EXPECT_NEAR(p.imputed[0], 3, 1e-12);
  for (Index i = 0; i < 24; ++i)
    if (p.source_rows[static_cast<std::size_t>(i)] % 6 == 2) {
      EXPECT_NEAR(raw(p, i)[0], 3, 1e-12);
    }
}

}  // namespace prepared_test
}  // namespace bilevel::models
