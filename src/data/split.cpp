#include <bilevel/data/split.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include <fmt/format.h>

#include <bilevel/outcome/violations.hpp>

namespace bilevel::data {
namespace {

/// A number below `bound`, each equally likely. The standard's distributions differ between platforms.
std::uint64_t draw_below(std::uint64_t bound, std::mt19937_64& engine) {
  const std::uint64_t unfair = (~bound + 1) % bound;  // 2⁶⁴ mod bound: the numbers that would be too many
  while (true) {
    const std::uint64_t drawn = engine();
    if (drawn >= unfair) return drawn % bound;
  }
}

void shuffle(std::vector<Index>& rows, std::mt19937_64& engine) {
  for (std::size_t left = rows.size(); left > 1; --left) {
    std::swap(rows[left - 1], rows[static_cast<std::size_t>(draw_below(left, engine))]);
  }
}

/// The rows of each stratum, shuffled; strata in ascending order.
std::vector<std::vector<Index>> shuffled_strata(Index rows, std::uint64_t seed,
                                                const std::vector<int>* strata) {
  if (strata != nullptr && static_cast<Index>(strata->size()) != rows) {
    throw InvalidInput(fmt::format("{} strata for {} rows; every row needs one", strata->size(), rows));
  }
  std::map<int, std::vector<Index>> members;
  for (Index row = 0; row < rows; ++row) {
    members[strata == nullptr ? 0 : (*strata)[static_cast<std::size_t>(row)]].push_back(row);
  }
  std::mt19937_64 engine(seed);
  std::vector<std::vector<Index>> shuffled;
  for (auto& [stratum, some] : members) {
    shuffle(some, engine);
    shuffled.push_back(std::move(some));
  }
  return shuffled;
}

}  // namespace

std::vector<int> assign_folds(Index rows, int folds, std::uint64_t seed, const std::vector<int>* strata) {
  if (folds < 2 || folds > rows) {
    throw InvalidInput(fmt::format("{} folds of {} rows: at least 2 folds, and a row for each", folds, rows));
  }
  std::vector<int> assigned(static_cast<std::size_t>(rows));
  // Rows are dealt like cards, on and on through the strata: no hand is ever two ahead of another.
  int fold = 0;
  for (const std::vector<Index>& stratum : shuffled_strata(rows, seed, strata)) {
    for (const Index row : stratum) {
      assigned[static_cast<std::size_t>(row)] = fold;
      fold = fold + 1 == folds ? 0 : fold + 1;
    }
  }
  return assigned;
}

std::vector<bool> draw_part(Index rows, double fraction, std::uint64_t seed, const std::vector<int>* strata) {
  if (!(fraction > 0 && fraction < 1)) {
    throw InvalidInput(fmt::format("a part of {} of the rows: a fraction lies between 0 and 1", fraction));
  }
  if (rows < 2) throw InvalidInput(fmt::format("{} rows cannot be split into two parts", rows));
  std::vector<bool> drawn(static_cast<std::size_t>(rows), false);
  const auto parts = shuffled_strata(rows, seed, strata);
  const auto target = [&](Index count) {
    return std::clamp<Index>(std::llround(fraction * static_cast<double>(count)), 0, count);
  };
  Index seen = 0, taken = 0;
  for (const std::vector<Index>& stratum : parts) {
    const auto size = static_cast<Index>(stratum.size());
    // Rounding the running total keeps both the whole and each stratum within one row of its share.
    const Index before = target(seen);
    seen += size;
    Index share = target(seen) - before;
    if (size > 1) share = std::min(share, size - 1);
    for (Index k = 0; k < share; ++k)
      drawn[static_cast<std::size_t>(stratum[static_cast<std::size_t>(k)])] = true;
    taken += share;
  }
  if (taken == 0) {
    const auto largest = std::max_element(parts.begin(), parts.end(),
                                          [](const auto& a, const auto& b) { return a.size() < b.size(); });
    drawn[static_cast<std::size_t>(largest->front())] = true;
  }
  if (taken == rows) drawn[static_cast<std::size_t>(parts.front().front())] = false;
  return drawn;
}

std::vector<int> strata_of(const Eigen::VectorXd& target) {
  std::vector<double> values(target.begin(), target.end());
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  std::vector<int> strata;
  strata.reserve(static_cast<std::size_t>(target.size()));
  for (const double value : target) {
    strata.push_back(
        static_cast<int>(std::lower_bound(values.begin(), values.end(), value) - values.begin()));
  }
  return strata;
}

}  // namespace bilevel::data
