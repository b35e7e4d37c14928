#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace bilevel::data {

/// A sequence whose length is not known beforehand. It grows by blocks that are never copied and are given
/// back one by one while they are drained, so that the final copy costs no second of it.
template <class T>
class Blocks {
 public:
  /// Room for `count` further elements next to each other, uninitialised.
  T* grow(std::size_t count) {
    if (blocks_.empty() || blocks_.back().capacity - blocks_.back().used < count) {
      const std::size_t capacity = std::max(count, std::clamp(size_, smallest, largest));
      blocks_.push_back({std::make_unique_for_overwrite<T[]>(capacity), 0, capacity});
    }
    Block& last = blocks_.back();
    T* const room = last.elements.get() + last.used;
    last.used += count;
    size_ += count;
    return room;
  }
  void push(T value) { *grow(1) = value; }
  std::size_t size() const { return size_; }

  /// visit(elements, count) for each block in order; the block is freed after it. Two sequences that grew by
  /// the same counts have the same blocks.
  template <class Visit>
  void drain(Visit visit) {
    for (Block& block : blocks_) {
      visit(static_cast<const T*>(block.elements.get()), block.used);
      block.elements.reset();
    }
    blocks_.clear();
    size_ = 0;
  }
  template <class Other, class Visit>
  void drain_beside(Blocks<Other>& other, Visit visit) {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      visit(static_cast<const T*>(blocks_[b].elements.get()),
            static_cast<const Other*>(other.blocks_[b].elements.get()), blocks_[b].used);
      blocks_[b].elements.reset();
      other.blocks_[b].elements.reset();
    }
    blocks_.clear();
    other.blocks_.clear();
    size_ = other.size_ = 0;
  }

 private:
  template <class>
  friend class Blocks;
  static constexpr std::size_t smallest = std::size_t{1} << 12;
  static constexpr std::size_t largest = std::size_t{1} << 20;
  struct Block {
    std::unique_ptr<T[]> elements;
    std::size_t used, capacity;
  };
  std::vector<Block> blocks_;
  std::size_t size_ = 0;
};

}  // namespace bilevel::data
