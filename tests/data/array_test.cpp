#include <cmath>

#include "arrays.hpp"
#include "texts.hpp"

namespace bilevel::data::testing {
namespace array_test {

const std::vector<double> six = {1, 2, 3, 4, 5, 6};

TEST(Idx, EveryTypeAndRank) {
  ReadOptions options;
  options.target_optional = true;
  const DenseRows expected = (DenseRows(2, 3) << 1, 2, 3, 4, 5, 6).finished();
  const auto check = [&](unsigned char type, const std::string& cells) {
    EXPECT_EQ(read_text(idx(type, {2, 3}, cells), options).dense_rows(), expected) << int{type};
  };
  check(0x08, elements<std::uint8_t>(six, true));
  check(0x09, elements<std::int8_t>(six, true));
  check(0x0b, elements<std::int16_t>(six, true));
  check(0x0c, elements<std::int32_t>(six, true));
  check(0x0d, elements<float>(six, true));
  check(0x0e, elements<double>(six, true));
  EXPECT_EQ(read_text(idx(0x09, {2}, elements<std::int8_t>({-1, 200 - 256}, true)), options).dense_rows(),
            (DenseRows(2, 1) << -1, -56).finished());
  EXPECT_EQ(read_text(idx(0x08, {1, 2, 1, 3}, elements<std::uint8_t>(six, true)), options).features(), 6);
}

TEST(Idx, PicturesWithLabels) {
  const TemporaryFile labels("idx-labels", idx(0x08, {2}, elements<std::uint8_t>({7, 9}, true)));
  ReadOptions options;
  options.labels = labels.path();
  const Dataset data = read_text(idx(0x08, {2, 1, 3}, elements<std::uint8_t>(six, true)), options);
  EXPECT_EQ(data.format, Format::idx);
  EXPECT_EQ(data.target, Eigen::Vector2d(7, 9));
  ASSERT_TRUE(data.image.has_value());
  EXPECT_EQ(*data.image, (std::pair<Index, Index>{1, 3}));
  EXPECT_EQ(data.names, (std::vector<std::string>{"pixel[0,0]", "pixel[0,1]", "pixel[0,2]"}));
  const Dataset again =
      read_text(idx(0x08, {2, 1, 3}, elements<std::uint8_t>(six, true)), options, &data.schema);
  EXPECT_EQ(again.dense_rows(), data.dense_rows());
  EXPECT_EQ(again.target, data.target);
  EXPECT_NE(complaint(idx(0x08, {3, 1, 2}, elements<std::uint8_t>(six, true)), options, &data.schema)
                .find("2 cells a row"),
            std::string::npos);
  expect_complaint(idx(0x08, {3, 1, 2}, elements<std::uint8_t>(six, true)), options, "has 2 labels",
                   "3 rows");
}

TEST(Npy, EveryTypeOrderAndVersion) {
  const DenseRows expected = (DenseRows(2, 2) << 1, 2, 4, 5).finished();
  const auto check = [&](const std::string& bytes) {
    const Dataset data = read_text(bytes);
    EXPECT_EQ(data.format, Format::npy);
    EXPECT_EQ(data.dense_rows(), expected);
    EXPECT_EQ(data.target, Eigen::Vector2d(3, 6));
    EXPECT_EQ(data.names, (std::vector<std::string>{"c0", "c1"}));
  };
  check(npy("|u1", false, "(2, 3)", elements<std::uint8_t>(six, false)));
  check(npy("|i1", false, "(2, 3)", elements<std::int8_t>(six, false)));
  check(npy("<i2", false, "(2, 3)", elements<std::int16_t>(six, false)));
  check(npy(">u2", false, "(2,3)", elements<std::uint16_t>(six, true)));
  check(npy("<i4", false, "(2, 3)", elements<std::int32_t>(six, false)));
  check(npy(">u4", false, "(2, 3)", elements<std::uint32_t>(six, true)));
  check(npy("<i8", false, "(2, 3)", elements<std::int64_t>(six, false)));
  check(npy(">u8", false, "(2, 3)", elements<std::uint64_t>(six, true)));
  check(npy("<f4", false, "(2, 3)", elements<float>(six, false)));
  check(npy(">f8", false, "(2, 3)", elements<double>(six, true)));
  check(npy("<f8", true, "(2, 3)", elements<double>({1, 4, 2, 5, 3, 6}, false)));
  check(npy("<f8", false, "(2, 3)", elements<double>(six, false), 2));
  check(npy("<f8", false, "(2, 3)", elements<double>(six, false), 3));
  check(npy_with("{\"shape\":(2L,3L),\"descr\":\"<f8\",\"fortran_order\":False}",
                 elements<double>(six, false)));
}

TEST(Npy, HalfAndTruth) {
  // 1, -2, 0.5, 65504 (the largest), 2⁻²⁴ (the smallest) and -0.
  const std::string cells = elements<std::uint16_t>({0x3c00, 0xc000, 0x3800, 0x7bff, 0x0001, 0x8000}, false);
  const Dataset data = read_text(npy("<f2", false, "(3, 2)", cells));
  EXPECT_EQ(data.dense_rows(), (DenseRows(3, 1) << 1, 0.5, std::ldexp(1, -24)).finished());
  EXPECT_EQ(data.target, Eigen::Vector3d(-2, 65504, 0));
  expect_complaint(npy("<f2", false, "(1, 2)", elements<std::uint16_t>({0x7c00, 0}, false)), {}, "row 1",
                   "not finite");
  EXPECT_EQ(read_text(npy("|b1", false, "(1, 2)", std::string("\1\0", 2))).dense_rows()(0, 0), 1);
}

TEST(Npy, RolesAndMissingCells) {
  const double nan = std::nan("");
  // Columns: weight, feature, category, target, group.
  const std::vector<double> by_rows = {0.5, 1, 3, 10, 2, 2, nan, 4, 20, 1, 0, 5, 3, 30, 2};
  std::vector<double> by_columns;
  for (std::size_t c = 0; c < 5; ++c) {
    for (std::size_t i = 0; i < 3; ++i) by_columns.push_back(by_rows[5 * i + c]);
  }
  ReadOptions options;
  options.weights = "0";
  options.target = "c3";
  options.split = "-1";
  options.categorical = {"2"};
  for (const bool fortran : {false, true}) {
    const std::string bytes =
        npy("<f8", fortran, "(3, 5)", elements<double>(fortran ? by_columns : by_rows, false));
    options.missing = Missing::refuse;
    expect_complaint(bytes, options, "row 2", "'c1'", "ReadOptions.missing = mean");
    options.missing = Missing::mean;
    const Dataset data = read_text(bytes, options);
    EXPECT_EQ(data.names, (std::vector<std::string>{"c1", "c2=3", "c2=4"}));
    EXPECT_EQ(data.weights, Eigen::Vector3d(0.5, 2, 0));
    EXPECT_EQ(data.target, Eigen::Vector3d(10, 20, 30));
    EXPECT_EQ(data.split, (std::vector<int>{1, 0, 1}));
    EXPECT_EQ(data.dense_rows()(2, 0), 5);
    EXPECT_TRUE(std::isnan(data.dense_rows()(1, 0)));
    EXPECT_EQ(data.dense_rows().rightCols(2), (DenseRows(3, 2) << 1, 0, 0, 1, 1, 0).finished());
    ASSERT_EQ(data.notes.size(), 1u);
  }
}

TEST(Npy, LongArraysInBothOrders) {
  const Index rows = 50'000, columns = 7;
  std::vector<double> by_rows, by_columns;
  for (Index k = 0; k < rows * columns; ++k) {
    by_rows.push_back(static_cast<double>(k));
    by_columns.push_back(static_cast<double>(k % rows * columns + k / rows));
  }
  const Dataset rows_first = read_text(npy("<f4", false, "(50000, 7)", elements<float>(by_rows, false)));
  const Dataset columns_first = read_text(npy("<f4", true, "(50000, 7)", elements<float>(by_columns, false)));
  EXPECT_EQ(rows_first.dense_rows(), columns_first.dense_rows());
  EXPECT_EQ(rows_first.target, columns_first.target);
  EXPECT_EQ(rows_first.dense_rows()(rows - 1, 5), static_cast<double>(rows * columns - 2));
}

}  // namespace array_test
}  // namespace bilevel::data::testing
