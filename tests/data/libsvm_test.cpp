#include <algorithm>
#include <random>

#include "texts.hpp"

namespace bilevel::data::testing {
namespace libsvm_test {

ReadOptions stored(Storage storage) {
  ReadOptions options;
  options.storage = storage;
  return options;
}

TEST(Libsvm, BlanksCommentsAndLabelsAlone) {
  for (const Storage storage : {Storage::dense, Storage::sparse}) {
    const Dataset data =
        read_text("# made by hand\n+1 1:0.5 3:2 # first\n\n-1\t2:1e-3   4:7  \r\n2.5\n", stored(storage));
    EXPECT_EQ(data.format, Format::libsvm);
    EXPECT_EQ(data.sparse(), storage == Storage::sparse);
    const DenseRows x = data.sparse() ? DenseRows(data.sparse_rows()) : data.dense_rows();
    EXPECT_EQ(x, (DenseRows(3, 4) << 0.5, 0, 2, 0, 0, 1e-3, 0, 7, 0, 0, 0, 0).finished());
    EXPECT_EQ(data.target, Eigen::Vector3d(1, -1, 2.5));
    EXPECT_EQ(data.names, (std::vector<std::string>{"f1", "f2", "f3", "f4"}));
    EXPECT_EQ(data.target_name, "label");
  }
}

TEST(Libsvm, IndicesFromZeroAndInAnyOrder) {
  ReadOptions options = stored(Storage::sparse);
  options.zero_based = true;
  options.features = 6;
  const Dataset data = read_text("1 3:4 0:1 1:2\n", options);
  EXPECT_EQ(DenseRows(data.sparse_rows()), (DenseRows(1, 6) << 1, 2, 0, 4, 0, 0).finished());
  EXPECT_EQ(std::vector<int>(data.sparse_rows().innerIndexPtr(), data.sparse_rows().innerIndexPtr() + 3),
            (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(data.names.front(), "f0");
}

TEST(Libsvm, StorageFollowsTheFilledShare) {
  EXPECT_FALSE(read_text("1 1:1\n1 2:1\n1 3:1\n").sparse());    // a third
  EXPECT_TRUE(read_text("1 1:1\n1 2:1\n1 3:1\n1\n").sparse());  // a quarter
}

TEST(Libsvm, FurtherFilesHaveTheColumnsOfTheFirst) {
  const Dataset first = read_text("1 1:1 3:1\n0 2:5 3:2\n");
  const Dataset fewer = read_text("1 1:7\n", {}, &first.schema);
  EXPECT_EQ(fewer.features(), 3);
  EXPECT_TRUE(fewer.notes.empty());
  const Dataset more = read_text("1 1:7 9:1\n1 4:1 5:2\n", {}, &first.schema);
  EXPECT_EQ(more.dense_rows(), (DenseRows(2, 3) << 7, 0, 0, 0, 0, 0).finished());
  ASSERT_EQ(more.notes.size(), 1u);
  EXPECT_NE(more.notes[0].find("3 entries beyond the 3 columns"), std::string::npos);
  EXPECT_NE(complaint("1,2,3\n", {}, &first.schema).find("the first one was libsvm"), std::string::npos);
}

TEST(Libsvm, NamesFromAFile) {
  const TemporaryFile names("words", "apple\npear\nplum\n");
  ReadOptions options;
  options.names = names.path();
  const Dataset data = read_text("1 1:1 2:1\n", options);
  EXPECT_EQ(data.features(), 3);
  EXPECT_EQ(data.names.back(), "plum");
  expect_complaint("1 4:1\n", options, "has 4 columns", "3 lines");
}

// Random sparse matrices, written in random order, come back in both storages.
TEST(Libsvm, RandomMatricesComeBack) {
  constexpr unsigned seed = 99;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 engine(seed);
  for (int repeat = 0; repeat < 100; ++repeat) {
    const Index rows = 1 + static_cast<Index>(engine() % 40), columns = 1 + static_cast<Index>(engine() % 30);
    DenseRows x = DenseRows::Zero(rows, columns);
    Eigen::VectorXd y(rows);
    std::string text;
    for (Index i = 0; i < rows; ++i) {
      y[i] = static_cast<double>(engine() % 5) - 2;
      text += fmt::format("{}", y[i]);
      std::vector<Index> chosen;
      for (Index j = 0; j < columns; ++j) {
        if (engine() % 3 == 0) chosen.push_back(j);
      }
      for (std::size_t k = chosen.size(); k > 1; --k) std::swap(chosen[k - 1], chosen[engine() % k]);
      for (const Index j : chosen) {
        x(i, j) = static_cast<double>(engine() >> 11) * 0x1p-40;
        text += fmt::format(" {}:{}", j + 1, x(i, j));
      }
      text += "\n";
    }
    for (const Storage storage : {Storage::dense, Storage::sparse}) {
      ReadOptions options = stored(storage);
      options.format = Format::libsvm;
      options.features = columns;
      const Dataset data = read_text(text, options);
      ASSERT_EQ(data.sparse() ? DenseRows(data.sparse_rows()) : data.dense_rows(), x);
      ASSERT_EQ(data.target, y);
    }
  }
}

}  // namespace libsvm_test
}  // namespace bilevel::data::testing
