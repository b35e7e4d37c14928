#include <bilevel/encoding/base64.hpp>

#include <random>

#include <gtest/gtest.h>

namespace bilevel {
namespace base64_test {

std::string encoded(const std::string& bytes) {
  std::string text;
  append_base64(bytes.data(), bytes.size(), text);
  return text;
}

TEST(Base64, AgreesWithTheExamplesOfTheStandard) {
  const std::pair<const char*, const char*> examples[] = {
      {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : examples) {
    EXPECT_EQ(encoded(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
}

TEST(Base64, BytesComeBack) {
  std::mt19937 draw(1);
  for (std::size_t size = 0; size < 100; ++size) {
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(draw());
    EXPECT_EQ(from_base64(encoded(bytes)), bytes) << size;
  }
}

TEST(Base64, WhatIsNoneIsRefused) {
  for (const char* text : {"A", "AB", "ABC", "AB!D", "A=BC", "ÄÄ=="}) EXPECT_FALSE(from_base64(text)) << text;
}

}  // namespace base64_test
}  // namespace bilevel
