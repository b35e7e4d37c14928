#include "grid.hpp"

#include <filesystem>
#include <utility>

#include <nlohmann/json.hpp>

#include <bilevel/files/atomic_file.hpp>

#include "files/read_own.hpp"

namespace bilevel::models {

using nlohmann::json;

namespace {

std::vector<Vec> states_of(const json& list) {
  std::vector<Vec> states;
  for (const json& one : list) {
    const auto numbers = one.get<std::vector<double>>();
    states.emplace_back(Eigen::Map<const Vec>(numbers.data(), static_cast<Index>(numbers.size())));
  }
  return states;
}

json list_of(const std::vector<Vec>& states) {
  json list = json::array();
  for (const Vec& one : states) list.push_back(std::vector<double>(one.begin(), one.end()));
  return list;
}

}  // namespace

Grid::Grid(std::string path, std::string identity, bool resume)
    : path_(std::move(path)), identity_(std::move(identity)) {
  if (path_.empty() || !resume || !std::filesystem::exists(path_)) return;
  bilevel::read_own(
      bilevel::read_file(path_), fmt::format("cannot resume from {}", path_),
      "start without TuneControl.resume or name the right file", [&](const std::string& text) {
        const json file = json::parse(bilevel::unsealed(text, grid_file).run);
        if (file.at("identity") != identity_) throw InvalidInput("it belongs to another run");
        for (const json& p : file.at("points")) {
          GridPoint point{p.at(0), bilevel::unknown, p.at(2)};
          if (p.at(1).is_number()) point.validation_loss = p.at(1);
          if (point.validation_loss < least_) least_ = point.validation_loss;
          points_.push_back(point);
        }
        phi_ = states_of(file.at("phi"));
        best_phi_ = states_of(file.at("best"));
      });
}

void Grid::add(GridPoint point, std::vector<Vec> phi) {
  if (!points_.empty()) point.seconds += points_.back().seconds;
  points_.push_back(point);
  phi_ = std::move(phi);
  if (point.validation_loss < least_) {
    least_ = point.validation_loss;
    best_phi_ = phi_;
  }
  if (path_.empty()) return;
  json file{{"identity", identity_}, {"points", json::array()}};
  for (const GridPoint& p : points_)
    file["points"].push_back(
        {p.log_lambda, std::isfinite(p.validation_loss) ? json(p.validation_loss) : json("nan"), p.seconds});
  file["phi"] = list_of(phi_);
  file["best"] = list_of(best_phi_);
  const std::string problem =
      bilevel::replace_file(path_, bilevel::sealed(grid_file, file.dump()), false);
  if (!problem.empty()) throw InvalidInput(problem);
}

}  // namespace bilevel::models
