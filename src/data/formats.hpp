#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <bilevel/data/read.hpp>

#include "data/stream.hpp"

namespace bilevel::data {

/// What a reader of one format needs.
struct Task {
  Stream& stream;
  const ReadOptions& options;
  const Schema* like;              ///< null: the first file
  std::vector<std::string> names;  ///< from options.names

  const std::string& file() const { return stream.name(); }
};

Dataset read_csv(Task& task);
Dataset read_libsvm(Task& task);
Dataset read_idx(Task& task);
Dataset read_npy(Task& task);

/// Names for the columns of a file that has none: c0, c1, …, or those given, for all columns or for all but
/// the target.
std::vector<std::string> column_names(const Task& task, std::size_t columns);

/// Puts the target from the file options.labels into the data.
void read_labels(Dataset& data, const ReadOptions& options, const Schema* like);

/// The format of what lies ahead; throws where it is none of them.
Format detect(Stream& stream);

/// Elements of an array in a file.
struct Element {
  char kind = 'f';  ///< f: floating point, i, u: integers, b: truth values
  int bytes = 8;
  bool big_endian = false;
};
/// An array whose shape has been read; its elements lie ahead.
struct Array {
  Element element;
  std::vector<std::int64_t> shape;
  bool column_major = false;
};
Array read_idx_header(Stream& stream);
Array read_npy_header(Stream& stream);
/// Rows and columns of the array, all axes after the first as one; throws where they exceed the limits.
std::pair<Index, Index> checked_shape(const Array& array, const std::string& file, const Limits& limits);
/// Goes through the elements of an array that has `total` of them, some at a time.
class Elements {
 public:
  Elements(Stream& stream, const Element& element, Index total)
      : stream_(stream), element_(element), total_(total) {}
  /// Makes sure that `count` more are there, so that memory is taken only for what has arrived.
  void await(Index count);
  /// Those awaited, as numbers.
  void take(Index count, double* into);
  /// Throws where bytes follow the last element.
  void finish();

 private:
  Stream& stream_;
  Element element_;
  Index total_, taken_ = 0;
};

}  // namespace bilevel::data
