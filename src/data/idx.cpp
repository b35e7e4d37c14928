#include "data/array_table.hpp"
#include "data/complaint.hpp"

namespace bilevel::data {

Array read_idx_header(Stream& stream) {
  const std::string& file = stream.name();
  std::string_view held = stream.ahead(4);
  if (held.size() < 4 || held[0] != 0 || held[1] != 0) {
    complain(
        file,
        "byte 0: an IDX file begins with two zero bytes, a type and a rank; another ReadOptions.format?");
  }
  Array array;
  array.element.big_endian = true;
  switch (held[2]) {
    case 0x08:
      array.element = {'u', 1, true};
      break;
    case 0x09:
      array.element = {'i', 1, true};
      break;
    case 0x0b:
      array.element = {'i', 2, true};
      break;
    case 0x0c:
      array.element = {'i', 4, true};
      break;
    case 0x0d:
      array.element = {'f', 4, true};
      break;
    case 0x0e:
      array.element = {'f', 8, true};
      break;
    default:
      complain(file, "byte 2: IDX has no type 0x{:02x}; is the file damaged?",
               static_cast<unsigned char>(held[2]));
  }
  const auto rank = static_cast<unsigned char>(held[3]);
  if (rank < 1 || rank > 4) {
    complain(file, "byte 3: the array has {} axes; arrays of 1 to 4 axes can be read", rank);
  }
  const std::size_t bytes = 4 + std::size_t{4} * rank;
  held = stream.ahead(bytes);
  if (held.size() < bytes) complain(file, "ends at byte {}, inside the IDX header", held.size());
  for (std::size_t axis = 0; axis < rank; ++axis) {
    std::int64_t size = 0;
    for (std::size_t k = 0; k < 4; ++k)
      size = size * 256 + static_cast<unsigned char>(held[4 + 4 * axis + k]);
    array.shape.push_back(size);
  }
  stream.consume(bytes);
  return array;
}

Dataset read_idx(Task& task) {
  const Array array = read_idx_header(task.stream);
  const auto [rows, columns] = checked_shape(array, task.file(), task.options.limits);
  if (task.like != nullptr && task.like->features != columns) {
    complain(task.file(), "has {} cells a row, the first file had {}", columns, task.like->features);
  }
  std::vector<std::string> names;
  if (task.like != nullptr) {
    names = task.like->names;
  } else if (!task.names.empty() || array.shape.size() != 3) {
    names = column_names(task, static_cast<std::size_t>(columns));
  } else {
    for (Index cell = 0; cell < columns; ++cell) {
      names.push_back(fmt::format("pixel[{},{}]", cell / array.shape[2], cell % array.shape[2]));
    }
  }
  // Every cell is a feature: the target, where there is one, lies in a file of its own.
  ReadOptions all_features = task.options;
  if (all_features.labels.empty()) all_features.labels = "none";
  Table table(task.file(), "row", all_features, nullptr);
  table.set_columns(std::move(names), false);
  read_array(task.stream, array, rows, columns, table);
  Dataset data = table.finish(Format::idx);
  data.schema.columns.clear();
  if (task.like != nullptr) data.schema = *task.like;
  data.target_name = data.schema.target_name;
  if (array.shape.size() == 3) data.image = {array.shape[1], array.shape[2]};
  return data;
}

}  // namespace bilevel::data
