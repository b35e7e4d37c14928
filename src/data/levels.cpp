#include "data/levels.hpp"

#include <algorithm>
#include <numeric>

namespace bilevel::data {

int Levels::find(std::string_view text) const {
  const auto found = numbers_.find(text);
  return found == numbers_.end() ? -1 : found->second;
}

int Levels::add(std::string_view text) {
  const int known = find(text);
  if (known >= 0) return known;
  numbers_.emplace(text, size());
  texts_.emplace_back(text);
  return size() - 1;
}

std::vector<int> Levels::sort() {
  std::vector<int> order(texts_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int left, int right) {
    return texts_[static_cast<std::size_t>(left)] < texts_[static_cast<std::size_t>(right)];
  });
  std::vector<int> now(texts_.size());
  std::vector<std::string> sorted(texts_.size());
  for (std::size_t place = 0; place < order.size(); ++place) {
    const auto old = static_cast<std::size_t>(order[place]);
    now[old] = static_cast<int>(place);
    sorted[place] = std::move(texts_[old]);
    numbers_[sorted[place]] = static_cast<int>(place);
  }
  texts_ = std::move(sorted);
  return now;
}

}  // namespace bilevel::data
