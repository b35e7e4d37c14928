#include <random>

#include "arrays.hpp"
#include "texts.hpp"

// Every malformed file gets a message with the place and the remedy. What is packed and cut off is in
// source_test.cpp.
namespace bilevel::data::testing {
namespace malformed_test {

TEST(Malformed, Csv) {
  expect_complaint("a,b,y\n1,2,3\n4,5\n", {}, "line 3 has 2 cells", "have 3", "ReadOptions.skip",
                   "ReadOptions.delimiter");
  expect_complaint("1,2,3\n4,5,6,7\n", {}, "line 2 has 4 cells");
  expect_complaint("a,b,y\n1,NaN,3\n", {}, "line 2", "'b'", "missing", "ReadOptions.missing = mean");
  expect_complaint("a,b,y\n1,,3\n", {}, "line 2", "'b'", "missing");
  for (const std::string_view infinite : {"inf", "-Infinity", "1e999"}) {
    expect_complaint(fmt::format("a,b,y\n1,1,1\n1,{},3\n", infinite), {}, "line 3", "'b'", "not finite");
  }
  expect_complaint("a,b,y\n1,2,3\n1,2,\n", {}, "line 3", "'y'", "target is missing");
  expect_complaint("a,b,y\n1,2,3\n1,red,4\n", {}, "line 3", "'b'", "'red'", "ReadOptions.categorical = b");
  expect_complaint("a,b,y\n", {}, "no rows", "ReadOptions.header = no");
  expect_complaint("a,b,a\n1,2,3\n", {}, "two columns are called 'a'");
  expect_complaint("a,b,y\n\"1,2,3\n4,5,6\n", {}, "line 2", "never closed");
  expect_complaint("a,b,y\n\"x\"z,2,3\n", {}, "line 2", "closing quote");
  // A header with a number in it, or a line of something else that happens to have as many cells.
  expect_complaint("id,2019,y\n1,2,3\n4,5,6\n", {}, "line 1", "'id' is text", "ReadOptions.header = yes",
                   "ReadOptions.skip");
  EXPECT_EQ(complaint("q,2,3\n4,5,6\nr,5,6\n"), "");
  expect_complaint("a;y\n1,5;2\n", {}, "line 2", "'a'", "decimal comma", "ReadOptions.categorical = a");
  expect_complaint("a,y\n\"-1,5\",2\n", {}, "line 2", "decimal comma");
  expect_complaint("1,5;2,25\n3,5;1,5\n", {}, "decimal comma");
  expect_complaint("a;y\n1.200,5e1;2\n", {}, "line 2", "decimal comma");
  EXPECT_EQ(complaint("a;y\nx,5;2\n1,;3\n"), "");
  EXPECT_EQ(complaint("1,x;2,3\n1,y;2,3\n"), "");
  expect_complaint("a,y\r1,2\r3,4\r", {}, "carriage returns alone");
  EXPECT_EQ(complaint("a,y\r\n1,2\r\n3,4\r\n"), "");
  expect_complaint("", {}, "is empty");
  expect_complaint("\n \n\n", {}, "no line with data");
  expect_complaint("y\n1\n", {}, "no column left for a feature");
}

TEST(Malformed, CsvOptions) {
  ReadOptions options;
  options.target = "z";
  expect_complaint("a,b,y\n1,2,3\n", options, "ReadOptions.target = 'z'", "'a', 'b', 'y'");
  options.target = "3";
  expect_complaint("a,b,y\n1,2,3\n", options, "ReadOptions.target = 3", "0 to 2");
  options.target = "y";
  options.weights = "y";
  expect_complaint("a,b,y\n1,2,3\n", options, "already");
  options.weights = "b";
  expect_complaint("a,b,y\n1,-2,3\n", options, "line 2", "'b'", "weights are 0 or more");
  expect_complaint("a,b,y\n1,x,3\n", options, "line 2", "'b'", "not a number");
  options = {};
  options.zero_based = true;
  expect_complaint("a,b,y\n1,2,3\n", options, "ReadOptions.zero_based is for LIBSVM");
  options = {};
  options.features = 3;
  expect_complaint("a,b,y\n1,2,3\n", options, "ReadOptions.features is for LIBSVM");
  options = {};
  options.target = "a";
  expect_complaint("1 1:2\n", options, "ReadOptions.target names a column");
  options = {};
  options.skip = 5;
  expect_complaint("a,b,y\n1,2,3\n", options, "ReadOptions.skip = 5");
  options.skip = -1;
  EXPECT_NE(complaint("1,2\n", options).find("skip"), std::string::npos);
}

TEST(Malformed, Limits) {
  ReadOptions options;
  options.limits.levels = 3;
  expect_complaint("a,y\nq,1\nr,1\ns,1\nt,1\n", options, "line 5", "more than 3 different",
                   "ReadOptions.ignore");
  options.limits.line_bytes = 20;
  expect_complaint("a,y\n" + std::string(30, '1') + ",2\n", options, "line 2 is longer than 20 bytes");
  expect_complaint("a,y\n\"x\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\",2\n", options, "line 2",
                   "never closed");
  options.limits.cells = 5;
  expect_complaint("1,2\n1,2\n1,2\n", options, "more than 5 cells");
  options.limits.columns = 2;
  expect_complaint("1,2,3\n", options, "more than 2");
  expect_complaint("1 3:1\n", options, "line 1", "limit of 2 columns");
}

TEST(Malformed, Libsvm) {
  expect_complaint("1 1:1\n1 0:1 2:1\n", {}, "line 2", "'0:1'", "ReadOptions.zero_based");
  expect_complaint("1 1:1\n1 -3:1\n", {}, "line 2", "'-3:1'", "negative");
  expect_complaint("1 1:1\n1 2:1 2:5\n", {}, "line 2", "index 2 occurs twice");
  expect_complaint("1 1:1\n1 3:1 2:5 3:2\n", {}, "line 2", "index 3 occurs twice");
  expect_complaint("1 2147483648:1\n", {}, "line 1", "limit of 10000000 columns");
  ReadOptions boundless;
  boundless.limits.columns = std::numeric_limits<Index>::max();
  expect_complaint("1 2147483648:1\n", boundless, "line 1", "limit of 2147483646 columns");
  expect_complaint("1 99999999999999999999999:1\n", boundless, "line 1", "limit of 2147483646 columns");
  for (const std::string_view value : {"nan", "inf", "1e999", "", "1x", "?"}) {
    expect_complaint(fmt::format("1 1:1\n1 2:{}\n", value), {}, "line 2", "not a finite number");
  }
  expect_complaint("1 1:1\n1 5 2:1\n", {}, "line 2", "'5' is not index:value");
  expect_complaint("1,2 1:1\n", {}, "line 1", "several classes");
  expect_complaint("1 qid:3 1:1\n", {}, "line 1", "qid");
  expect_complaint("1 1:1\nnan 1:1\n", {}, "line 2", "label 'nan'");
  expect_complaint("1 1:1\n1:1 2:1\n", {}, "line 2", "label first");
  ReadOptions options;
  options.format = Format::libsvm;
  expect_complaint("1\n2\n", options, "no feature");
  options.weights = "w";
  expect_complaint("1 1:1\n", options, "ReadOptions.weights names a column, and those of libsvm");
}

TEST(Malformed, Idx) {
  ReadOptions options;
  expect_complaint(idx(0x08, {2, 2}, "abcd"), options, "ReadOptions.labels");
  options.target_optional = true;
  expect_complaint(idx(0x08, {2, 2}, "abc"), options, "byte 15", "3 of the 4 cells");
  expect_complaint(idx(0x08, {2, 2}, "abcde"), options, "byte 16", "goes on");
  expect_complaint(idx(0x08, {4294967295u, 1000}, "abc"), options, "4294967295 × 1000", "cells, the limit");
  expect_complaint(idx(0x0e, {1, 65535, 65535, 65535}, "abc"), options, "columns, the limit");
  expect_complaint(idx(0x08, {400'000'000, 10}, "abc"), options, "3 of the 4000000000 cells");
  expect_complaint(idx(0x08, {0, 4}, ""), options, "no cells");
  expect_complaint(std::string("\0\0\x08\x02\0\0", 6), options, "inside the IDX header");
  expect_complaint(idx(0x08, {1, 1, 1, 1, 1}, "a"), options, "5 axes");
  options.format = Format::idx;
  expect_complaint(idx(0x0a, {1, 1}, "a"), options, "type 0x0a");
  expect_complaint("text", options, "byte 0");
  expect_complaint(idx(0x0d, {1, 2}, elements<float>({1, NAN}, true)), options, "row 1", "'c1'",
                   "ReadOptions.missing = mean");
}

TEST(Malformed, Npy) {
  const std::string cells(48, '\0');
  expect_complaint(npy("<f8", false, "(1000000000000, 3)", cells), {}, "1000000000000 × 3",
                   "cells, the limit");
  expect_complaint(npy("<f8", false, "(3, 1000000000000)", cells), {}, "columns, the limit");
  expect_complaint(npy("<f8", false, "(99999999999999999999999, 3)", cells), {}, "absurd");
  expect_complaint(npy("<f8", false, "(-1, 3)", cells), {}, "size of the shape");
  expect_complaint(npy("<f8", false, "(2, 2, 2)", cells), {}, "3 axes");
  expect_complaint(npy("<f8", false, "()", cells), {}, "0 axes");
  expect_complaint(npy("<f8", false, "(3, 3)", cells), {}, "6 of the 9 cells");
  expect_complaint(npy("<f8", false, "(2, 2)", cells), {}, "goes on");
  expect_complaint(npy("<c16", false, "(2, 2)", cells), {}, "'<c16'");
  expect_complaint(npy("|O", false, "(2, 2)", cells), {}, "'|O'");
  expect_complaint(npy_with("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1, 1)}", cells), {},
                   "fields");
  expect_complaint(npy_with("{'descr': '<f8', 'fortran_order': False}", cells), {}, "missing");
  expect_complaint(npy_with("{'descr': '<f8', 'descr': '<f8'}", cells), {}, "twice");
  expect_complaint(npy_with("{'descr': '<f8', 'fortran_order': 0, 'shape': (2, 3)}", cells), {},
                   "True or False");
  expect_complaint(npy_with("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3)} x", cells), {},
                   "follows");
  expect_complaint(npy("<f8", false, "(2, 3)", cells, 9), {}, "version");
  expect_complaint(npy("<f8", false, "(2, 3)", cells).substr(0, 40), {}, "inside the NPY header");
}

TEST(Malformed, WhatIsNoTable) {
  expect_complaint("PK\x03\x04 and so on", {}, "zip archive", "convert");
  expect_complaint(std::string("\x89PNG\r\n\x1a\n\0\0", 10), {}, "PNG");
  expect_complaint(std::string("\xff\xfe"
                               "a\0",
                               4),
                   {}, "UTF-16");
  constexpr unsigned seed = 5;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 engine(seed);
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::string junk;
    for (int k = 0; k < 2000; ++k) junk += static_cast<char>(engine());
    expect_complaint(junk, {}, "convert");
  }
}

}  // namespace malformed_test
}  // namespace bilevel::data::testing
