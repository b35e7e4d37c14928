#include "property.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  bilevel::fuzz::fuzz(bytes, size, bilevel::data::Format::libsvm);
  return 0;
}
