#include "feature_groups.hpp"

#include <map>

namespace bilevel::models {

std::vector<Index> groups_of(const TuneOptions& options, const bilevel::data::Dataset& d,
                             const std::vector<Index>& kept, std::vector<std::string>& group_names) {
  std::map<std::string, Index> index;
  std::vector<Index> group;
  std::vector<std::string> missing;
  for (const Index column : kept) {
    const auto j = static_cast<std::size_t>(column);
    const std::string &feature = d.names[j], &origin = d.origins[j];
    std::string label;
    if (!options.groups.empty()) {
      auto found = options.groups.find(feature);
      if (found == options.groups.end()) found = options.groups.find(origin);
      if (found == options.groups.end()) {
        missing.push_back(feature);
        continue;
      }
      label = found->second;
    } else if (options.group_separator) {
      label = feature.substr(0, feature.find(options.group_separator));
    } else {
      label = origin;
    }
    const auto [place, fresh] = index.emplace(label, static_cast<Index>(group_names.size()));
    if (fresh) group_names.push_back(label);
    group.push_back(place->second);
  }
  if (!missing.empty())
    throw InvalidInput(fmt::format(
        "TuneOptions.groups: no group for {} feature(s), the first of them '{}'; give each a line",
        missing.size(), missing[0]));
  return group;
}

}  // namespace bilevel::models
