#include <bilevel/files/container.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <bilevel/outcome/violations.hpp>

#include "refusal.hpp"

namespace bilevel {
namespace container_test {

constexpr FileKind kind{"bilevel-example", 3};
const std::string run = R"({"identity":"me","numbers":[1,2]})";
/// With everything that text could stumble over.
const std::string bytes("\0\n}}\n{\"run\":\xff", 14);

TEST(Container, ComesBackAsItWas) {
  for (const std::string& block : {std::string(), bytes}) {
    const std::string text = sealed(kind, run, block);
    const Contents contents = unsealed(text, kind);
    EXPECT_EQ(contents.run, run);
    EXPECT_EQ(contents.bytes, block);
    // The first line is JSON of its own, with the kind in front.
    const auto line = nlohmann::json::parse(text.substr(0, text.find('\n')));
    EXPECT_EQ(line.at("run").at("identity"), "me");
    EXPECT_TRUE(text.starts_with("{\"format\":\"bilevel-example\",\"version\":3,"));
  }
}

TEST(Container, EveryCutAndEveryChangedBitIsNoticed) {
  const std::string text = sealed(kind, run, bytes);
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_NE(refusal([&] { unsealed(std::string_view(text).substr(0, length), kind); }), "accepted")
        << length;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] ^= 1;
    bool noticed = false;
    try {
      unsealed(changed, kind);
    } catch (const std::exception&) {
      noticed = true;
    }
    EXPECT_TRUE(noticed) << i;
  }
}

TEST(Container, OtherKindsAndVersionsAreRefusedByName) {
  const auto said = [](const std::string& text) { return refusal([&] { unsealed(text, kind); }); };
  EXPECT_NE(
      said(sealed({"bilevel-other", 3}, run)).find("not a bilevel checkpoint of the kind bilevel-example"),
      std::string::npos);
  const std::string old = said(sealed({"bilevel-example", 2}, run, bytes));
  EXPECT_NE(old.find("a bilevel-example of version 2, and this program reads version 3"), std::string::npos)
      << old;
  EXPECT_NE(old.find("delete it to begin anew"), std::string::npos) << old;
  // As files were before there was one container.
  const std::string older = said("{\"format\":\"bilevel-example\",\"epoch\":7,\"version\":1}\n" + bytes);
  EXPECT_NE(older.find("of version 1"), std::string::npos) << older;
}

}  // namespace container_test
}  // namespace bilevel
