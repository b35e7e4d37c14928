#include <algorithm>
#include <array>
#include <utility>

#include "data/cell.hpp"
#include "data/complaint.hpp"
#include "data/formats.hpp"

namespace bilevel::data {
namespace {

constexpr std::size_t looked_at = 65536;

using namespace std::string_view_literals;
constexpr std::array foreign = {std::pair{"PK\x03\x04"sv, "a zip archive"sv},
                                std::pair{"\xfd"
                                          "7zXZ"sv,
                                          "xz"sv},
                                std::pair{"\x28\xb5\x2f\xfd"sv, "zstd"sv},
                                std::pair{"PAR1"sv, "Parquet"sv},
                                std::pair{"\x89HDF"sv, "HDF5"sv},
                                std::pair{"\x89PNG"sv, "a PNG picture"sv},
                                std::pair{"%PDF"sv, "a PDF"sv},
                                std::pair{"\xff\xfe"sv, "UTF-16 text"sv},
                                std::pair{"\xfe\xff"sv, "UTF-16 text"sv}};

/// index:value, where the index may be negative and the value anything that can still be complained about.
bool is_entry(std::string_view token) {
  if (token.substr(0, 4) == "qid:") return true;
  const std::size_t colon = token.find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view index =
      token.substr(token.front() == '-' ? 1 : 0, colon - (token.front() == '-' ? 1 : 0));
  double value = 0;
  return !index.empty() && index.find_first_not_of("0123456789") == std::string_view::npos &&
         classify(token.substr(colon + 1), value) != CellKind::text;
}

/// Whether the line is LIBSVM's, or shows it to be not; unclear where it has a label only.
enum class Look { libsvm, other, unclear };
Look look_at(std::string_view line) {
  const bool comment = line.find('#') != std::string_view::npos;
  line = trimmed(line.substr(0, line.find('#')));
  if (line.empty()) return Look::unclear;
  const std::size_t label = std::min(line.find_first_of(" \t"), line.size());
  if (line.substr(0, label).find_first_not_of("0123456789+-.eE,") != std::string_view::npos)
    return Look::other;
  const std::string_view rest = trimmed(line.substr(label));
  if (rest.empty()) return comment || line.find(',') == std::string_view::npos ? Look::unclear : Look::other;
  return is_entry(rest.substr(0, rest.find_first_of(" \t"))) ? Look::libsvm : Look::other;
}

}  // namespace

Format detect(Stream& stream) {
  const std::string_view held = stream.ahead(looked_at);
  if (held.empty()) complain(stream.name(), "is empty");
  if (held.substr(0, 6) == "\x93NUMPY") return Format::npy;
  const bool idx_type = held.size() >= 4 &&
                        std::string_view("\x08\x09\x0b\x0c\x0d\x0e").find(held[2]) != std::string_view::npos;
  if (idx_type && held[0] == 0 && held[1] == 0 && held[3] >= 1) return Format::idx;
  for (const auto& [start, what] : foreign) {
    if (held.substr(0, start.size()) == start) {
      complain(stream.name(), "looks like {}, which cannot be read; convert it to CSV, LIBSVM, IDX or NPY",
               what);
    }
  }
  // A text has no zero byte and hardly any other control character.
  const std::string_view start = held.substr(0, 4096);
  const auto control = std::count_if(start.begin(), start.end(), [](char character) {
    return static_cast<unsigned char>(character) < 0x20 && character != '\n' && character != '\r' &&
           character != '\t';
  });
  const std::size_t zero = held.find('\0');
  if (zero != std::string_view::npos || control * 20 > static_cast<std::ptrdiff_t>(start.size())) {
    complain(stream.name(), "holds bytes that no text has (byte {}); convert it to CSV, LIBSVM, IDX or NPY",
             zero == std::string_view::npos ? 0 : zero);
  }
  for (std::size_t at = 0; at < held.size();) {
    const std::size_t end = std::min(held.find('\n', at), held.size());
    std::string_view line = held.substr(at, end - at);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const Look look = look_at(line);
    if (look != Look::unclear) return look == Look::libsvm ? Format::libsvm : Format::csv;
    at = end + 1;
  }
  return Format::csv;
}

}  // namespace bilevel::data
