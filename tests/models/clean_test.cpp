// Cleaning: what was planted is found, on real data too; how rows are drawn, scaled and corrupted; and the
// file without the rows that were found.

#include <bilevel/models/clean.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include <bilevel/problems/kernels.hpp>

#include <bilevel/models/clean_file.hpp>
#include "scratch.hpp"
#include "task.hpp"

namespace bilevel::models {
namespace {

std::string digits() {
  const char* named = std::getenv("BILEVEL_DATA");
  const std::string path = std::string(named ? named : BILEVEL_DATA_DEFAULT) + "/sklearn/digits.csv.gz";
  return std::filesystem::exists(path) ? path : std::string();
}

/// Three clouds; every `wrong`-th row has the label of another cloud. `libsvm`: the same numbers in that
/// format.
std::string clouds(const std::string& name, int rows, int wrong, std::uint64_t seed, bool libsvm = false) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  const std::vector<std::string> names{"alpha", "\"beta, two\"", "gamma"};
  std::ostringstream out;
  out.precision(17);
  if (!libsvm) out << "east,north,same,noise,kind\n";
  for (int i = 0; i < rows; ++i) {
    const int kind = i % 3;
    const double east = 40 * std::cos(2.1 * kind) + 8 * normal(engine),
                 north = 0.4 * std::sin(2.1 * kind) + 0.08 * normal(engine), noise = normal(engine);
    const int label = wrong > 0 && i % wrong == 0 ? (kind + 1) % 3 : kind;
    if (libsvm)
      out << label << " 1:" << east << " 2:" << north << " 3:7 4:" << noise << "\n";
    else
      out << east << "," << north << ",7," << noise << "," << names[static_cast<std::size_t>(label)] << "\n";
  }
  return write(name, out.str());
}

CleanTask task_for(const std::string& data) {
  CleanTask task;
  task.data = data;
  task.trusted = "90";
  return task;
}

int class_of(const CleanData& c, Index row) {
  return (*c.samples.classes)[static_cast<std::size_t>(row)];
}

/// What holds for every result.
void expect_consistent(const CleanTask& task, const CleanData& c, const Cleaned& r) {
  ASSERT_EQ(r.weights.size(), c.training_rows);
  EXPECT_LE(r.summary.theta.cwiseAbs().maxCoeff(), clean_bound);
  std::set<Index> seen(r.order.begin(), r.order.end());
  EXPECT_EQ(static_cast<Index>(seen.size()), c.training_rows);
  const auto suspicious = [&](Index i) {
    return r.weights[i] < task.threshold && r.predicted[static_cast<std::size_t>(i)] != class_of(c, i);
  };
  Index light = 0;
  for (std::size_t k = 0; k < r.order.size(); ++k) {
    const Index i = r.order[k];
    EXPECT_NEAR(r.weights[i], 1 / (1 + std::exp(-r.summary.theta[i])), 1e-15);
    EXPECT_EQ(suspicious(i), static_cast<Index>(k) < r.flagged);
    if (static_cast<Index>(k) != 0 && static_cast<Index>(k) != r.flagged) {
      EXPECT_LE(r.weights[r.order[k - 1]], r.weights[i]);
    }
    light += r.weights[i] < task.threshold;
  }
  EXPECT_EQ(light, r.light);
  EXPECT_EQ(r.summary.certificate.kind, bilevel::Kind::rigorous) << r.summary.certificate.reason;
  EXPECT_EQ(r.summary.certificate.verdict, bilevel::Verdict::trusted);
  EXPECT_LT(r.loss_after, r.loss_before);
  if (!r.truth) return;
  double found = 0, corrupted = 0;
  for (Index i = 0; i < c.training_rows; ++i) {
    const bool wrong = class_of(c, i) != c.original[static_cast<std::size_t>(i)];
    corrupted += wrong;
    found += wrong && suspicious(i);
  }
  EXPECT_EQ(static_cast<double>(r.truth->corrupted), corrupted);
  EXPECT_NEAR(r.truth->precision, found / static_cast<double>(r.flagged), 1e-15);
  EXPECT_NEAR(r.truth->recall, found / corrupted, 1e-15);
  EXPECT_NEAR(r.truth->f1, 2 * r.truth->precision * r.truth->recall / (r.truth->precision + r.truth->recall),
              1e-14);
}

TEST(Clean, FindsPlantedNoiseInDigits) {
  if (digits().empty())
    GTEST_SKIP() << "no digits.csv.gz; set BILEVEL_DATA to the folder that holds sklearn/";
  for (const std::uint64_t seed : {1, 2}) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    CleanTask task = task_for(digits());
    task.trusted = "500";
    task.test = "400";
    task.corrupt = 0.5;
    task.seed = seed;
    const CleanData c = prepare_clean(task);
    EXPECT_EQ(c.training_rows, 897);
    const Cleaned r = clean(task, c, {});
    expect_consistent(task, c, r);
    EXPECT_EQ(r.summary.status, bilevel::Status::relative_decrease) << r.summary.message;
    EXPECT_GE(r.truth->f1, 0.85);
    EXPECT_GT(*r.accuracy_after, *r.accuracy_before);
    EXPECT_GE(*r.accuracy_after, 0.9);
    RecordProperty(fmt::format("seed{}", seed),
                   fmt::format("F1 {:.4f}, accuracy {:.4f} to {:.4f}, {:.2f} s", r.truth->f1,
                               *r.accuracy_before, *r.accuracy_after, r.seconds));
  }
}

TEST(Clean, FindsWrongLabelsOfAFileByACheckedOne) {
  CleanTask task = task_for(clouds("noisy.csv", 600, 7, 1));
  task.trusted = clouds("checked.csv", 60, 0, 2);
  const CleanData c = prepare_clean(task);
  EXPECT_EQ(c.training_rows, 600);
  EXPECT_EQ(c.trusted_rows, 60);
  EXPECT_TRUE(c.warnings.empty());
  const Cleaned r = clean(task, c, {});
  expect_consistent(task, c, r);
  EXPECT_FALSE(r.truth || r.accuracy_before);
  Index wrong = 0;
  for (Index k = 0; k < r.flagged; ++k) {
    const Index row = c.source_rows[static_cast<std::size_t>(r.order[static_cast<std::size_t>(k)])];
    wrong += (row - 1) % 7 == 0;
  }
  EXPECT_GE(wrong, 82) << "of 86 wrong labels";
  EXPECT_LE(r.flagged - wrong, 12);
}

TEST(Clean, SparseAndDenseAgree) {
  CleanTask dense = task_for(clouds("same.svm", 400, 6, 3, true)), sparse = dense;
  dense.reading.storage = bilevel::data::Storage::dense;
  sparse.reading.storage = bilevel::data::Storage::sparse;
  const CleanData a = prepare_clean(dense), b = prepare_clean(sparse);
  EXPECT_EQ(a.storage, "dense");
  EXPECT_EQ(b.storage, "sparse");
  EXPECT_EQ(a.source_rows, b.source_rows);
  const Cleaned first = clean(dense, a, {}), second = clean(sparse, b, {});
  EXPECT_LE((first.weights - second.weights).norm(), 1e-3 * first.weights.norm());
}

/// Large enough for several threads.
TEST(Clean, NumbersDoNotDependOnTheThreads) {
  constexpr std::uint64_t seed = 9;
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  CleanData c;
  c.training_rows = 6000;
  c.trusted_rows = 500;
  c.classes = {"a", "b", "c"};
  auto labels = std::make_shared<std::vector<int>>();
  c.samples.matrix = std::make_shared<bilevel::problems::ModelMatrix>(6500, 120, [&](Index i, double* row) {
    labels->push_back(static_cast<int>(i % 3));
    for (Index j = 0; j < 120; ++j) row[j] = 0.2 * normal(engine) + (j % 3 == i % 3 ? 0.2 : 0);
    if (i < 6000 && i % 4 == 0) labels->back() = static_cast<int>(engine() % 3);
  });
  c.samples.classes = labels;
  c.nonzeros = 6500 * 120;
  c.lambda = 3e-3;
  CleanTask task = task_for("");
  task.iterations = 3;
  const int before = bilevel::problems::kernels::threads();
  bilevel::problems::kernels::set_threads(1);
  const Cleaned one = clean(task, c, {});
  bilevel::problems::kernels::set_threads(3);
  const Cleaned three = clean(task, c, {});
  bilevel::problems::kernels::set_threads(before);
  EXPECT_EQ(one.summary.theta, three.summary.theta) << "seed " << seed;
  EXPECT_EQ(one.order, three.order);
}

TEST(Clean, RowsAreDrawnOnceAndKeepTheirShares) {
  CleanTask task = task_for(clouds("drawn.csv", 900, 0, 4));
  task.test = "0.2";
  task.trusted = "120";
  task.rows = 300;
  task.corrupt = 0.4;
  const CleanData c = prepare_clean(task);
  EXPECT_EQ(c.test_rows, 180);
  EXPECT_EQ(c.trusted_rows, 120);
  EXPECT_EQ(c.training_rows, 300);
  EXPECT_EQ(c.classes, (std::vector<std::string>{"alpha", "beta, two", "gamma"}));
  EXPECT_EQ(c.constant, std::vector<std::string>{"same"});
  EXPECT_TRUE(std::is_sorted(c.source_rows.begin(), c.source_rows.end()));
  std::map<int, int> original, trusted, test;
  for (Index i = 0; i < 300; ++i) {
    // In this file the label follows from the row.
    EXPECT_EQ(c.original[static_cast<std::size_t>(i)],
              static_cast<int>((c.source_rows[static_cast<std::size_t>(i)] - 1) % 3));
    ++original[c.original[static_cast<std::size_t>(i)]];
  }
  for (Index i = c.trusted().first; i < c.trusted().second; ++i) ++trusted[class_of(c, i)];
  for (Index i = c.test().first; i < c.test().second; ++i) ++test[class_of(c, i)];
  for (int k = 0; k < 3; ++k) {
    EXPECT_NEAR(original[k], 100, 1);
    EXPECT_NEAR(trusted[k], 40, 1);
    EXPECT_NEAR(test[k], 60, 1);
  }
  Index differ = 0;
  for (Index i = 0; i < 300; ++i) differ += class_of(c, i) != c.original[static_cast<std::size_t>(i)];
  // 120 labels drawn anew, a third of them by chance what they were: 80, give or take five.
  EXPECT_NEAR(static_cast<double>(differ), 80, 20);
  // No row serves twice: features tell them apart.
  std::set<double> values;
  for (Index i = 0; i < c.samples.matrix->rows(); ++i)
    c.samples.matrix->for_each(i, [&](Index j, double x) {
      if (j == 0) values.insert(x);
    });
  EXPECT_EQ(values.size(), 600U);
  // The same seed the same rows, another seed others.
  EXPECT_EQ(prepare_clean(task).source_rows, c.source_rows);
  task.seed = 2;
  EXPECT_NE(prepare_clean(task).source_rows, c.source_rows);
}

TEST(Clean, FeaturesAreScaledByTheirLargestAndPicturesAsAWhole) {
  CleanTask task = task_for(clouds("scaled.csv", 200, 0, 5));
  const CleanData c = prepare_clean(task);
  Vec largest = Vec::Zero(3);
  for (Index i = 0; i < c.training_rows; ++i)
    c.samples.matrix->for_each(i, [&](Index j, double x) { largest[j] = std::max(largest[j], std::abs(x)); });
  EXPECT_EQ(largest, Vec::Ones(3));
  double squares = 0;
  for (Index i = 0; i < c.training_rows; ++i)
    c.samples.matrix->for_each(i, [&](Index, double x) { squares += x * x; });
  EXPECT_NEAR(c.lambda, 3e-5 * squares / static_cast<double>(c.training_rows), 1e-18);
  task.lambda = 0.25;
  EXPECT_EQ(prepare_clean(task).lambda, 0.25);

  // An IDX file of 2×3 pictures: pixel k of picture i is 10·k + i, and the last is always 9.
  std::string images("\0\0\x08\x03\0\0\0\x08\0\0\0\x02\0\0\0\x03", 16), labels("\0\0\x08\x01\0\0\0\x08", 8);
  for (int i = 0; i < 8; ++i) {
    for (int k = 0; k < 5; ++k) images += static_cast<char>(10 * k + i);
    images += '\x09';
    labels += static_cast<char>(i % 2);
  }
  task = task_for(write("pictures", images));
  task.reading.labels = write("labels", labels);
  task.trusted = "2";
  const CleanData p = prepare_clean(task);
  ASSERT_TRUE(p.image);
  EXPECT_EQ(*p.image, (std::pair<Index, Index>{2, 3}));
  EXPECT_EQ(p.columns.size(), 5U);
  const auto brightest = static_cast<double>(40 + p.source_rows.back() - 1);
  for (Index i = 0; i < p.training_rows; ++i) {
    const auto bytes = p.picture(i);
    ASSERT_EQ(bytes.size(), 6U);
    const double row = static_cast<double>(p.source_rows[static_cast<std::size_t>(i)] - 1);
    for (std::size_t k = 0; k < 5; ++k)
      EXPECT_NEAR(bytes[k], 255 * (10 * static_cast<double>(k) + row) / brightest, 0.51);
    EXPECT_EQ(bytes[5], 0) << "left out, since it never changes";
  }
}

TEST(Clean, AnInterruptedRunGoesOnWithTheSameNumbers) {
  CleanTask task = task_for(clouds("resumed.csv", 300, 5, 6));
  const CleanData c = prepare_clean(task);
  const Cleaned whole = clean(task, c, {});
  TuneControl control;
  control.checkpoint = scratch("run.ckpt");
  control.identity = "this run";
  int steps = 0;
  control.progress = [&](const std::string&) { ++steps; };
  control.interrupted = [&] { return steps >= 6; };
  const Cleaned part = clean(task, c, control);
  EXPECT_TRUE(part.interrupted);
  EXPECT_LT(part.summary.iterations, whole.summary.iterations);
  control.interrupted = [] { return false; };
  control.resume = true;
  control.forget = false;
  const Cleaned rest = clean(task, c, control);
  EXPECT_TRUE(rest.summary.resumed);
  EXPECT_EQ(rest.summary.theta, whole.summary.theta);
  control.identity = "another run";
  EXPECT_THROW(clean(task, c, control), InvalidInput);
}

TEST(Clean, WarnsWhereTrustIsThin) {
  CleanTask task = task_for(clouds("thin.csv", 300, 0, 7));
  const auto warned = [&](const std::string& word) {
    const CleanData c = prepare_clean(task);
    return std::any_of(c.warnings.begin(), c.warnings.end(),
                       [&](const std::string& w) { return w.find(word) != std::string::npos; });
  };
  EXPECT_TRUE(warned("drawn from the data themselves"));
  EXPECT_FALSE(warned("few for"));
  task.trusted = "12";
  EXPECT_TRUE(warned("12 trusted rows are few for 3 classes"));
  task.trusted = write("two.csv", "east,north,same,noise,kind\n1,2,7,3,alpha\n2,3,7,1,gamma\n");
  EXPECT_TRUE(warned("no trusted row has the label beta, two"));
  EXPECT_FALSE(warned("drawn from"));
}

TEST(Clean, RefusesWithARemedy) {
  const std::string data = clouds("good.csv", 60, 0, 8);
  const auto refused = [&](auto change, const std::string& word) {
    CleanTask task = task_for(data);
    task.trusted = "20";
    change(task);
    try {
      prepare_clean(task);
      ADD_FAILURE() << "accepted: " << word;
    } catch (const InvalidInput& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  refused([](CleanTask& t) { t.trusted = ""; }, "CleanOptions.trusted is missing");
  refused([](CleanTask& t) { t.trusted = "0"; }, "some rows are needed");
  refused([](CleanTask& t) { t.trusted = "60"; }, "only 60 rows");
  refused([](CleanTask& t) { t.trusted = "0.999"; }, "only 60 rows");
  refused([](CleanTask& t) { t.trusted = "1.5"; }, "a share below 1, or a whole number");
  refused([](CleanTask& t) { t.trusted = "-3"; }, "a share below 1, or a whole number");
  refused([](CleanTask& t) { t.trusted = "nowhere.csv"; }, "nowhere.csv");
  refused([](CleanTask& t) { t.test = "45"; }, "only 15 rows");
  refused([](CleanTask& t) { t.rows = 41; }, "only 40 rows remain");
  refused([](CleanTask& t) { t.corrupt = 1; }, "corrupt");
  refused([](CleanTask& t) { t.lambda = -1; }, "lambda");
  refused([](CleanTask& t) { t.threshold = 1; }, "threshold");
  refused(
      [](CleanTask& t) {
        t.reading.target = "east";
        t.reading.ignore = {"kind"};
      },
      "no class label");
  refused(
      [](CleanTask& t) {
        t.reading.target = "same";
        t.reading.ignore = {"kind"};
      },
      "same label");
  refused([](CleanTask& t) { t.reading.ignore = {"east", "north", "noise"}; }, "constant");
}

TEST(CleanFile, KeepsEveryLineButThoseOfTheRows) {
  const auto without = [](const std::string& text, std::vector<Index> rows, auto change) {
    CleanTask task = task_for(write("lines", text));
    task.trusted = "2";
    change(task);
    return text_without(task.data, task.reading, prepare_clean(task), rows);
  };
  const auto plain = [](CleanTask&) {};
  const std::string csv =
      "\"na\nme\",kind\r\n"
      "1,a\r\n"
      "\r\n"
      "2,\"b\"\r\n"
      "3,\"a\"\n"
      "  \n"
      "4,b\n"
      "5,a\n"
      "6,b";
  EXPECT_EQ(without(csv, {}, plain), csv);
  EXPECT_EQ(without(csv, {2, 3, 6}, plain), "\"na\nme\",kind\r\n1,a\r\n\r\n  \n4,b\n5,a\n");
  EXPECT_EQ(without("\xef\xbb\xbf" + csv, {1}, plain),
            "\xef\xbb\xbf\"na\nme\",kind\r\n\r\n2,\"b\"\r\n3,\"a\"\n  \n4,b\n5,a\n6,b");
  // A quoted cell that goes on in the next line, with a delimiter and a doubled quote in it.
  const std::string quoted = "1;\"x\n;\"\"y\"\n2;z\n3;\"x\n;\"\"y\"\n4;z\n";
  EXPECT_EQ(without(quoted, {1, 4}, plain), "2;z\n3;\"x\n;\"\"y\"\n");
  EXPECT_EQ(without("note\n" + quoted, {2}, [](CleanTask& t) { t.reading.skip = 1; }),
            "note\n1;\"x\n;\"\"y\"\n3;\"x\n;\"\"y\"\n4;z\n");
  // Semicolons between decimal commas, as the reader finds it out.
  EXPECT_EQ(without("0;1,5;\"x\n;y\"\n1;2,5;z\n2;3,5;\"x\n;y\"\n3;4,5;z\n", {2},
                    [](CleanTask& t) { t.reading.categorical = {"c1"}; }),
            "0;1,5;\"x\n;y\"\n2;3,5;\"x\n;y\"\n3;4,5;z\n");
  const std::string libsvm =
      "# what this is\n1 1:1 2:3\n\n0 2:4 # a remark\n   # nothing\n1 1:5\n0 1:2 2:2\n";
  EXPECT_EQ(without(libsvm, {1, 3}, plain), "# what this is\n\n0 2:4 # a remark\n   # nothing\n0 1:2 2:2\n");
}

TEST(CleanFile, OfACompressedFileIsPlainText) {
  if (digits().empty())
    GTEST_SKIP() << "no digits.csv.gz; set BILEVEL_DATA to the folder that holds sklearn/";
  CleanTask task = task_for(digits());
  const CleanData c = prepare_clean(task);
  const std::string whole = text_without(task.data, task.reading, c, {}),
                    less = text_without(task.data, task.reading, c, {1, 1797});
  EXPECT_EQ(std::count(whole.begin(), whole.end(), '\n'), 1797);
  const std::size_t first = whole.find('\n') + 1, last = whole.rfind('\n', whole.size() - 2) + 1;
  EXPECT_EQ(less, whole.substr(first, last - first));
}

TEST(CleanFile, RefusesWhatHasNoLines) {
  CleanTask task = task_for("x");
  const auto says = [&](const std::string& format) {
    try {
      require_lines(task.data, task.reading, format);
      return std::string();
    } catch (const InvalidInput& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(says("csv"), "");
  EXPECT_EQ(says("libsvm"), "");
  EXPECT_NE(says("idx").find("and x is idx"), std::string::npos);
  EXPECT_NE(says("npy").find("and x is npy"), std::string::npos);
  task.reading.labels = "labels.txt";
  EXPECT_NE(says("csv").find("labels.txt"), std::string::npos);
}

}  // namespace
}  // namespace bilevel::models
