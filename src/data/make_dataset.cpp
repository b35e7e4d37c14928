#include <bilevel/data/make_dataset.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace bilevel::data {

Dataset make_dataset(DenseRows x, Eigen::VectorXd target, std::vector<std::string> names,
                     std::string target_name) {
  if (names.empty())
    for (Index j = 0; j < x.cols(); ++j) names.push_back(fmt::format("x{}", j + 1));
  if (static_cast<Index>(names.size()) != x.cols())
    throw InvalidInput(fmt::format("there are {} names for {} columns", names.size(), x.cols()));
  if (target.size() != x.rows())
    throw InvalidInput(fmt::format("there are {} targets for {} rows", target.size(), x.rows()));
  if (!target.allFinite()) throw InvalidInput("a target is missing or not finite");
  Dataset d;
  d.source = "the table in memory";
  d.format = Format::csv;
  d.x = std::move(x);
  d.names = d.origins = std::move(names);
  d.target = std::move(target);
  d.target_name = std::move(target_name);
  Schema& s = d.schema;
  s.format = d.format;
  s.header = true;
  for (const std::string& name : d.names) s.columns.push_back({name, ColumnKind::numeric, {}});
  s.columns.push_back({d.target_name, ColumnKind::target, {}});
  s.target_name = d.target_name;
  s.features = d.features();
  s.names = d.names;
  s.validate().throw_if_any();
  return d;
}

Dataset make_dataset(DenseRows x, const std::vector<std::string>& labels, std::vector<std::string> names,
                     std::string target_name) {
  std::vector<std::string> levels = labels;
  std::sort(levels.begin(), levels.end());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  Eigen::VectorXd target(static_cast<Index>(labels.size()));
  for (std::size_t i = 0; i < labels.size(); ++i)
    target[static_cast<Index>(i)] =
        static_cast<double>(std::lower_bound(levels.begin(), levels.end(), labels[i]) - levels.begin());
  Dataset d = make_dataset(std::move(x), std::move(target), std::move(names), std::move(target_name));
  d.levels = d.schema.target_levels = std::move(levels);
  return d;
}

}  // namespace bilevel::data
