#include "flags.hpp"

#include <algorithm>
#include <regex>

namespace app {
namespace {

std::string flag_of(std::string field) {
  if (field == "folds") return "cv";
  if (field == "lower" || field == "upper") return "bounds";
  if (field == "starts") return "start";
  if (field == "checkpoint") return "checkpoint FILE";
  std::replace(field.begin(), field.end(), '_', '-');
  return field;
}

}  // namespace

std::string as_flags(const std::string& text) {
  // What stands in quotes comes from a person's file and stays, as does what an option is set to; then
  // TuneOptions.folds = 1, train.free_steps = 3 at the beginning of a word, or `free_steps`.
  static const std::regex mention(
      "((?:^|[ (])'[^']*'(?![A-Za-z]))"
      "|(TuneOptions|CleanOptions|ReadOptions|TuneControl|TuningData|CleaningData)\\.([a-z_]+)"
      "( = )?(`[^`]*`|'[^']*')?"
      "|(^| )(?:train|split|meta|learner|pictures|sinusoids)\\.([a-z_]+)( = )|`([a-z_]+)`");
  std::string out;
  auto from = text.begin();
  for (auto found = std::sregex_iterator(text.begin(), text.end(), mention); found != std::sregex_iterator();
       ++found) {
    const std::smatch& m = *found;
    out.append(from, text.begin() + m.position());
    from = text.begin() + m.position() + m.length();
    if (m[1].matched) {
      out += m.str();
      continue;
    }
    out += m[6].str() + "--" + flag_of(m[3].str() + m[7].str() + m[9].str());
    // A table of its own is a file here.
    if (m[2].str().ends_with("Data")) out += " FILE";
    if (m[4].matched || m[8].matched) out += " ";
    out += m[5].str();
  }
  return out.append(from, text.end());
}

void as_flags(std::vector<std::string>& texts) {
  for (std::string& text : texts) text = as_flags(text);
}

}  // namespace app
