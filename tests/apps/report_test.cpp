#include "program.hpp"

namespace report_test {

using namespace program;

TEST(Report, IsTheSameLaterAsAtOnce) {
  const std::string json = scratch("later.json"), at_once = scratch("at_once.html");
  ASSERT_EQ(run("train --rows 200 --epochs 1 --probe 0 --json " + json + " --report " + at_once).code, 0);
  const Result later = run("report " + json);
  EXPECT_EQ(later.code, 0) << later.err;
  EXPECT_EQ(slurp(scratch("later.html")), slurp(at_once));
  EXPECT_NE(later.out.find("later.html"), std::string::npos);
}

TEST(Report, IsMadeOfAPageOrAResultThatHoldsOne) {
  const std::string page = R"({"title": "Ours", "sections": [{"title": "One"}]})";
  const std::string output = scratch("page.html");
  EXPECT_EQ(run("report " + write("bare.json", page) + " --output " + output).code, 0);
  const std::string bare = slurp(output);
  EXPECT_NE(bare.find("Ours"), std::string::npos);
  EXPECT_EQ(
      run("report " + write("held.json", "{\"error\": 0.1, \"page\": " + page + "}") + " --output " + output)
          .code,
      0);
  EXPECT_EQ(slurp(output), bare);
}

TEST(Report, OfSomethingElseIsRefused) {
  const auto refused = [](const std::string& text, const std::string& why) {
    const Result r = run("report " + write("something.json", text) + " --output " + scratch("none.html"));
    EXPECT_EQ(r.code, 2) << text << r.out;
    EXPECT_NE(r.err.find(why), std::string::npos) << r.err;
    EXPECT_FALSE(std::filesystem::exists(scratch("none.html")));
  };
  refused("{\"title\": ", "not JSON at all");
  refused("[1]", "it is no object");
  refused("{\"x\": 1}", "neither a result nor a page");
  refused("{\"command\": \"solve\"}", "the results of solve have no report");
  refused("{\"title\": \"x\", \"sections\": [{\"blocks\": []}]}", "sections[0]: \"title\" is missing");
  for (const char* command : {"tune", "clean", "train", "meta"})
    refused(fmt::format("{{\"command\": \"{}\", \"epochs\": 3}}", command),
            fmt::format("it is no whole result of {}: it has no \"status\", \"data\"", command));
  refused(R"({"command": "train", "status": "", "data": {}, "network": {}, "settings": {}, "epochs": 3})",
          "epochs");
  EXPECT_EQ(run("report " + scratch("nowhere.json")).code, 2);
  const std::string json = write("same.json", "{}");
  EXPECT_EQ(run("report " + json + " --output " + json).code, 2);
  EXPECT_EQ(slurp(json), "{}");
}

}  // namespace report_test
