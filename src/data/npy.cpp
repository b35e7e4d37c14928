#include <charconv>
#include <cstring>

#include "data/array_table.hpp"
#include "data/complaint.hpp"

namespace bilevel::data {
namespace {

/// The header of an NPY file: a dictionary with the keys descr, fortran_order and shape, written as Python
/// writes literals.
class NpyHeader {
 public:
  NpyHeader(const std::string& file, std::string_view text) : file_(file), rest_(text) {}

  Array parse() {
    Array array;
    bool element = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !element) {
        array.element = parse_element();
        element = true;
      } else if (key == "fortran_order" && !order) {
        array.column_major = truth();
        order = true;
      } else if (key == "shape" && !shape) {
        array.shape = tuple();
        shape = true;
      } else {
        broken(fmt::format("the key {} is unknown or given twice", shown(key)));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip();
    if (!rest_.empty()) broken("text follows the dictionary");
    if (!element || !order || !shape) broken("descr, fortran_order or shape is missing");
    return array;
  }

 private:
  [[noreturn]] void broken(std::string_view what) const {
    complain(file_, "the NPY header is broken: {} (at {}); write the array again", what,
             shown(rest_.substr(0, 20)));
  }
  void skip() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n' || rest_.front() == '\t'))
      rest_.remove_prefix(1);
  }
  bool accept(char character) {
    skip();
    if (rest_.empty() || rest_.front() != character) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char character) {
    if (!accept(character)) broken(fmt::format("'{}' expected", character));
  }
  std::string_view quoted() {
    skip();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    const std::size_t end = quote == '\'' || quote == '"' ? rest_.find(quote, 1) : std::string_view::npos;
    if (end == std::string_view::npos) broken("a quoted text expected");
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool truth() {
    skip();
    for (const std::string_view word : {"True", "False"}) {
      if (rest_.substr(0, word.size()) != word) continue;
      rest_.remove_prefix(word.size());
      return word == "True";
    }
    broken("True or False expected");
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> sizes;
    expect('(');
    while (!accept(')')) {
      skip();
      std::int64_t size = 0;
      const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error == std::errc::result_out_of_range) broken("a size of the shape is absurd");
      if (error != std::errc{} || size < 0) broken("a size of the shape expected");
      rest_.remove_prefix(static_cast<std::size_t>(stop - rest_.data()));
      if (!rest_.empty() && rest_.front() == 'L') rest_.remove_prefix(1);  // as Python 2 wrote long integers
      sizes.push_back(size);
      if (sizes.size() > 32) broken("the shape has too many axes");
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }
  Element parse_element() {
    skip();
    if (!rest_.empty() && rest_.front() == '[') {
      complain(file_, "holds records with fields; save a plain array of numbers");
    }
    const std::string_view descr = quoted();
    if (descr == "?" || descr == "|b1" || descr == "b1") return {'b', 1, false};
    std::string_view type = descr;
    bool big_endian = false;
    if (!type.empty() && std::strchr("<>|=", type.front()) != nullptr) {
      big_endian = type.front() == '>';
      type.remove_prefix(1);
    }
    for (const std::string_view known : {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"}) {
      if (type == known) return {known[0], known[1] - '0', big_endian};
    }
    complain(file_, "holds elements of the type {}; save real numbers (f2 to f8, i1 to i8, u1 to u8, bool)",
             shown(descr));
  }

  const std::string& file_;
  std::string_view rest_;
};

}  // namespace

Array read_npy_header(Stream& stream) {
  const std::string& file = stream.name();
  const auto byte = [](std::string_view held, std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(held[at]));
  };
  std::string_view held = stream.ahead(12);
  if (held.size() < 12 || held.substr(0, 6) != "\x93NUMPY") {
    complain(
        file,
        "byte 0: an NPY file begins with \\x93NUMPY, a version and a header; another ReadOptions.format?");
  }
  const std::size_t version = byte(held, 6);
  if (version < 1 || version > 3 || byte(held, 7) != 0) {
    complain(file, "byte 6: the version of NPY is {}.{}; 1.0, 2.0 and 3.0 can be read", version,
             byte(held, 7));
  }
  const std::size_t before = version == 1 ? 10 : 12;
  std::size_t bytes = byte(held, 8) + 256 * byte(held, 9);
  if (version > 1) bytes += 65536 * byte(held, 10) + 16777216 * byte(held, 11);
  if (bytes > 1 << 20) complain(file, "byte 8: a header of {} bytes is absurd; is the file damaged?", bytes);
  held = stream.ahead(before + bytes);
  if (held.size() < before + bytes) complain(file, "ends at byte {}, inside the NPY header", held.size());
  const Array array = NpyHeader(file, held.substr(before, bytes)).parse();
  if (array.shape.empty() || array.shape.size() > 2) {
    complain(file, "has {} axes; save an array of rows and columns (1 or 2 axes)", array.shape.size());
  }
  stream.consume(before + bytes);
  return array;
}

Dataset read_npy(Task& task) {
  const Array array = read_npy_header(task.stream);
  const auto [rows, columns] = checked_shape(array, task.file(), task.options.limits);
  Table table(task.file(), "row", task.options, task.like);
  table.set_columns(column_names(task, static_cast<std::size_t>(columns)), false);
  read_array(task.stream, array, rows, columns, table);
  return table.finish(Format::npy);
}

}  // namespace bilevel::data
