#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bilevel {

/// What a kept file says it is: runs of the outer loop, grids, trainings of networks.
struct FileKind {
  std::string_view format;  ///< "bilevel-…", by which the program knows its own files
  int version;              ///< of the fields; another one is refused
};

/// What a container holds: views of its text.
struct Contents {
  std::string_view run;    ///< JSON on one line
  std::string_view bytes;  ///< what follows that line; empty for most kinds
};

/// FNV-1a: notices damage, and tells one text from another. `hash` goes on from that of the bytes before.
std::uint64_t checksum(std::string_view bytes, std::uint64_t hash = 14695981039346656037ULL);

/// The container of all that is kept and resumed: one line {"format":…,"version":…,"checksum":…,"run":RUN} and
/// `bytes` as they are, where a kind has more numbers than text should hold. RUN is JSON on one line; the
/// checksum is that of its text and of the bytes.
std::string sealed(const FileKind& kind, std::string run, std::string_view bytes = {});

/// RUN and the bytes once more, within `text`. Throws InvalidInput (or a parse error of JSON) where the text is
/// damaged, of another kind or of another version; the sentence says which, and what to do about it.
Contents unsealed(std::string_view text, const FileKind& kind);

}  // namespace bilevel
