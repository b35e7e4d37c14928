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
  static const std::regex mention(
      "(TuneOptions|CleanOptions|ReadOptions|TuneControl|TuningData|CleaningData)\\.([a-z_]+)( = )?");
  std::string out;
  auto from = text.begin();
  for (auto found = std::sregex_iterator(text.begin(), text.end(), mention); found != std::sregex_iterator();
       ++found) {
    out.append(from, text.begin() + found->position());
    out += "--" + flag_of((*found)[2]);
    // A table of its own is a file here.
    if ((*found)[1].str().ends_with("Data")) out += " FILE";
    if ((*found)[3].matched) out += " ";
    from = text.begin() + found->position() + found->length();
  }
  return out.append(from, text.end());
}

void as_flags(std::vector<std::string>& texts) {
  for (std::string& text : texts) text = as_flags(text);
}

}  // namespace app
