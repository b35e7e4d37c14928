#include <bilevel/models/clean_file.hpp>

#include <string_view>
#include <vector>

#include <bilevel/data/source.hpp>

#include "data/cell.hpp"

namespace bilevel::models {
namespace {

namespace data = bilevel::data;

std::string whole_text(const std::string& path) {
  data::Source source(path);
  std::string text;
  std::vector<char> buffer(std::size_t{1} << 20);
  while (const std::size_t got = source.read(buffer.data(), buffer.size())) text.append(buffer.data(), got);
  return text;
}

}  // namespace

void require_lines(const std::string& path, const data::ReadOptions& reading, const std::string& format) {
  if (format != data::name(data::Format::csv) && format != data::name(data::Format::libsvm))
    throw InvalidInput(
        fmt::format("rows can be taken out of CSV, TSV and LIBSVM files, and {} is {}", path, format));
  if (!reading.labels.empty())
    throw InvalidInput(
        fmt::format("the labels are in a file of their own, {}, which would no longer fit", reading.labels));
}

std::string text_without(const std::string& path, const data::ReadOptions& reading, const CleanData& c,
                         const std::vector<Index>& rows) {
  require_lines(path, reading, c.format);
  const std::string text = whole_text(path);
  const std::string_view all = text;
  const std::size_t mark = all.starts_with("\xef\xbb\xbf") ? 3 : 0;  // of the byte order, no part of a line
  const bool csv = c.format == data::name(data::Format::csv);
  char delimiter = reading.delimiter;
  std::string out(all.substr(0, mark));
  out.reserve(text.size());
  Index skip = reading.skip, row = 0;
  bool header = csv && c.header;
  auto next = rows.begin();
  for (std::size_t begin = mark; begin < all.size();) {
    const auto line_end = [&](std::size_t from) {
      const std::size_t found = all.find('\n', from);
      return found == std::string_view::npos ? all.size() : found + 1;
    };
    std::size_t end = line_end(begin);
    const auto content = [&] {
      std::string_view line = all.substr(begin, end - begin);
      if (!line.empty() && line.back() == '\n') line.remove_suffix(1);
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      return line;
    };
    bool record = true;
    if (skip > 0) {
      --skip;
      record = false;
    } else if (csv) {
      const std::string_view line = content();
      record = !data::is_blank_line(line, delimiter);
      if (record && delimiter == 0) delimiter = data::find_delimiter(line);
      data::QuoteScan scan(delimiter);
      while (record && end < all.size() && scan.open_after(content())) end = line_end(end);
      if (record && header) header = record = false;
    } else {
      const std::string_view line = content().substr(0, content().find('#'));
      record = !data::is_blank_line(line, 0);
    }
    bool keep = true;
    if (record) {
      ++row;
      keep = next == rows.end() || *next != row;
      if (!keep) ++next;
    }
    if (keep) out.append(all.substr(begin, end - begin));
    begin = end;
  }
  if (row != c.file_rows)
    throw InvalidInput(
        fmt::format("{}: {} rows were read from it, and now it has {}: it changed meanwhile; run "
                    "again",
                    path, c.file_rows, row));
  return out;
}

}  // namespace bilevel::models
