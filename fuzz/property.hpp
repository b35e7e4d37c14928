#pragma once

#include <cstdint>
#include <string_view>

#include <bilevel/data/read.hpp>

namespace bilevel::fuzz {

/// Limits that keep one input quick and small.
data::ReadOptions small_options(data::Format format);

/// Changes the options by the bits of a byte, so that one corpus serves many of them.
void choose(data::ReadOptions& options, std::uint8_t bits);

/// Reads the bytes. Either InvalidInput comes out of it, or a data set that is whole: sizes agree, numbers
/// are finite unless they were missing, and reading the same bytes by its schema gives the same data set.
/// Ends the program where that fails.
void read_and_check(std::string_view bytes, const data::ReadOptions& options);

/// The first byte chooses options, the rest is the file.
inline void fuzz(const std::uint8_t* bytes, std::size_t size, data::Format format) {
  if (size == 0) return;
  data::ReadOptions options = small_options(format);
  choose(options, bytes[0]);
  read_and_check({reinterpret_cast<const char*>(bytes) + 1, size - 1}, options);
}

}  // namespace bilevel::fuzz
