#pragma once

#include <string>
#include <string_view>

#include <bilevel/data/dataset.hpp>

namespace bilevel::data {

inline bool is_blank(char character) {
  return character == ' ' || character == '\t';
}
inline const char* skip_blanks(const char* at, const char* end) {
  while (at != end && is_blank(*at)) ++at;
  return at;
}
std::string_view trimmed(std::string_view text);
/// Digits, a comma, digits, perhaps with a sign, dots between thousands and an exponent.
bool is_decimal_comma(std::string_view text);

/// The delimiter of a file whose first line this is: the first of tab, comma and semicolon that stands outside
/// quotes in it, or where it has none of them blanks.
char find_delimiter(std::string_view line);
/// Whether nothing but blanks is in it; 0 is a delimiter that is not known yet.
bool is_blank_line(std::string_view line, char delimiter);

/// Reads a finite decimal number at `at`: the end of it, or null where there is none. Rounded correctly.
const char* parse_number(const char* at, const char* end, double& value);

enum class CellKind { number, missing, infinite, text };
/// What a cell without surrounding blanks is; `value` is set for a number. Missing are the empty cell, NA,
/// NaN, N/A, null and ?, in any case.
CellKind classify(std::string_view cell, double& value);

/// Cuts a line into cells at the delimiter; ' ' stands for runs of blanks.
class Cells {
 public:
  Cells(std::string_view file, char delimiter) : file_(file), delimiter_(delimiter) {}

  void begin(std::string_view line, Index number);
  /// The next cell without blanks around it or quotes; false where the line has no more. The text is valid
  /// until the next call.
  bool next(std::string_view& cell);
  /// The next cell where it is a plain finite number; else nothing has been consumed.
  bool next_number(double& value);

 private:
  bool ends_at(const char* at) const {
    return at == end_ || (delimiter_ == ' ' ? is_blank(*at) : *at == delimiter_);
  }
  const char* skip_inner_blanks(const char* at) const;
  void advance(const char* cell_end);
  const char* quoted(const char* at, std::string_view& cell);

  std::string file_;
  char delimiter_;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  bool more_ = false;
  Index number_ = 0;
  std::string unescaped_;
};

/// Follows quotes through a line that goes on in the next one.
class QuoteScan {
 public:
  explicit QuoteScan(char delimiter) : delimiter_(delimiter) {}
  /// Whether the line, whose first part may have been scanned before, ends inside a quoted cell.
  bool open_after(std::string_view line);

 private:
  char delimiter_;
  std::size_t scanned_ = 0;
  bool inside_ = false, cell_start_ = true;
};

}  // namespace bilevel::data
