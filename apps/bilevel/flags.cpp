#include "flags.hpp"

#include <algorithm>
#include <regex>

namespace app {
namespace {

std::string flag_of(std::string field) {
  if (field == "folds") return "cv";
  if (field == "lower" || field == "upper") return "bounds";
  std::replace(field.begin(), field.end(), '_', '-');
  return field;
}

}  // namespace

std::string as_flags(const std::string& text) {
  // TuneOptions.folds = 1, train.free_steps = 3 at the beginning of a word, or `free_steps`.
  static const std::regex mention(
      "(TuneOptions|CleanOptions|ReadOptions|TuneControl|TuningData|CleaningData)\\.([a-z_]+)( = )?"
      "|(^| )(?:train|split)\\.([a-z_]+)( = )|`([a-z_]+)`");
  std::string out;
  auto from = text.begin();
  for (auto found = std::sregex_iterator(text.begin(), text.end(), mention); found != std::sregex_iterator();
       ++found) {
    const std::smatch& m = *found;
    out.append(from, text.begin() + m.position());
    out += m[4].str() + "--" + flag_of(m[2].str() + m[5].str() + m[7].str());
    // A table of its own is a file here.
    if (m[1].str().ends_with("Data")) out += " FILE";
    if (m[3].matched || m[6].matched) out += " ";
    from = text.begin() + m.position() + m.length();
  }
  return out.append(from, text.end());
}

void as_flags(std::vector<std::string>& texts) {
  for (std::string& text : texts) text = as_flags(text);
}

}  // namespace app
