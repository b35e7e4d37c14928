#include <bilevel/models/feature_groups.hpp>

#include <fstream>
#include <map>

namespace bilevel::models {

std::vector<Index> groups_of(const Task& task, const bilevel::data::Dataset& d,
                             const std::vector<Index>& kept, std::vector<std::string>& group_names) {
  std::map<std::string, std::string> named;
  if (!task.groups.empty()) {
    std::ifstream stream(task.groups);
    if (!stream) throw InvalidInput(fmt::format("--groups {}: the file cannot be read", task.groups));
    std::string line;
    for (long number = 1; std::getline(stream, line); ++number) {
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t'))
        line.pop_back();
      if (line.empty()) continue;
      const std::size_t gap = line.find_last_of(" \t,");
      if (gap == std::string::npos || gap == 0 || gap + 1 == line.size())
        throw InvalidInput(fmt::format("{}: line {}: write a feature's name, a blank and its group's name",
                                       task.groups, number));
      std::string feature = line.substr(0, line.find_last_not_of(" \t,", gap) + 1);
      if (!named.emplace(feature, line.substr(gap + 1)).second)
        throw InvalidInput(
            fmt::format("{}: line {}: feature '{}' has a group already", task.groups, number, feature));
    }
  }
  std::map<std::string, Index> index;
  std::vector<Index> group;
  std::vector<std::string> missing;
  for (const Index column : kept) {
    const auto j = static_cast<std::size_t>(column);
    const std::string &feature = d.names[j], &origin = d.origins[j];
    std::string label;
    if (!named.empty()) {
      auto found = named.find(feature);
      if (found == named.end()) found = named.find(origin);
      if (found == named.end()) {
        missing.push_back(feature);
        continue;
      }
      label = found->second;
    } else if (task.group_separator) {
      label = feature.substr(0, feature.find(task.group_separator));
    } else {
      label = origin;
    }
    const auto [place, fresh] = index.emplace(label, static_cast<Index>(group_names.size()));
    if (fresh) group_names.push_back(label);
    group.push_back(place->second);
  }
  if (!missing.empty())
    throw InvalidInput(fmt::format("{}: no group for {} feature(s), the first of them '{}'; give each a line",
                                   task.groups, missing.size(), missing[0]));
  return group;
}

}  // namespace bilevel::models
