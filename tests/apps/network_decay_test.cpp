// `bilevel tune --model mlp`: results and files, runs that go on, and refusals.

#include <fmt/format.h>

#include "data_file.hpp"
#include "program.hpp"

namespace network_decay_test {

using namespace program;

const std::string settings =
    " --model mlp --layers 4-3 --penalty per-layer --validation 0.3 --bounds=-8:0 --grid 5";

TEST(NetworkDecay, IsTunedReportedAndPredictedWith) {
  const std::string data = data_file("network.csv", 150, "3", 6), model = scratch("mlp.json"),
                    report = scratch("mlp.html");
  // Of this draw the minimum stays one all the way; where it vanishes the verdict is another, and honest.
  const json j = run_json("tune " + data + settings + " --seed 2 --save " + model + " --report " + report, 0);
  EXPECT_EQ(j["model"]["name"], "mlp");
  EXPECT_EQ(j["model"]["layers"], (json{4, 3}));
  EXPECT_EQ(j["model"]["last_layer"], "softmax");
  EXPECT_EQ(j["certificate"]["verdict"], "trusted") << j["certificate"]["reason"];
  ASSERT_EQ(j["penalties"].size(), 3u);
  EXPECT_EQ(j["penalties"][2]["name"], "layer 3");
  EXPECT_LE(j["validation_loss"].get<double>(), j["baseline"]["grid"]["validation_loss"].get<double>());
  EXPECT_NE(slurp(report).find("one for each layer"), std::string::npos);
  const Result said = run("predict " + model + " " + data);
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(said.out.substr(0, said.out.find('\n')),
            "prediction,probability of high,probability of low,probability of middle");
}

TEST(NetworkDecay, ARunGoesOnWithTheSameNumbers) {
  const std::string data = data_file("kept.csv", 120, "number", 4), checkpoint = scratch("mlp.ckpt"),
                    command = "tune " + data + settings;
  const json whole = run_json(command, 0);
  EXPECT_EQ(run(command + " --iterations 1 --checkpoint " + checkpoint).code, 1);
  ASSERT_TRUE(std::filesystem::exists(checkpoint));
  const Result other = run(command + " --activation softplus --resume --checkpoint " + checkpoint);
  EXPECT_EQ(other.code, 2) << "another network is another run";
  const json rest = run_json(command + " --resume --checkpoint " + checkpoint, 0);
  EXPECT_EQ(rest["resumed"], true);
  EXPECT_EQ(rest["penalties"], whole["penalties"]);
  EXPECT_EQ(rest["test"]["loss"], whole["test"]["loss"]);
}

TEST(NetworkDecay, OtherCommandsTakeIt) {
  const std::string
      data = data_file("doctor.csv", 100, "number", 5),
      network = " --model mlp --layers 3 --penalty per-layer --prior-width inf --validation 0.3 --test 0 ";
  EXPECT_EQ(run("doctor " + data + network + "--theta=-4").code, 0);
  const json j = run_json("compare " + data + network + "--theta=-4 --inner trust-region", 0);
  EXPECT_LE(j["estimates"][0]["relative_error"].get<double>(), 1e-6);
}

TEST(NetworkDecay, BadInputSaysWhatToDo) {
  const std::string data = data_file("bad.csv", 60, "number", 7);
  for (const auto& [arguments, text] : std::initializer_list<std::pair<std::string, std::string>>{
           {"--model mlp --layers 0", "--layers 0: write sizes of at least 1 joined by '-', as in 64-32"},
           {"--model mlp --layers 8-", "--layers 8-: write sizes"},
           {"--model mlp --layers wide", "--layers wide: write sizes"},
           {"--model mlp --layers 999999999999999999999", "write sizes"},
           {"--model mlp --layers 9999999", "is a network of"},
           {"--layers 8", "--layers is for --model mlp"},
           {"--model ridge --activation tanh", "--activation is for --model mlp"},
           {"--model mlp --activation relu", "there is no activation 'relu'; there are: tanh, softplus"},
           {"--model mlp --last-layer lasso", "--last-layer lasso must be ridge, logistic or softmax"},
           {"--model mlp --penalty per-class", "per-class"},
           {"--model ridge --penalty per-layer", "is for --model mlp"}}) {
    const Result r = run("tune " + data + " " + arguments);
    EXPECT_EQ(r.code, 2) << arguments;
    EXPECT_NE(r.err.find(text), std::string::npos) << arguments << ": " << r.err;
  }
}

TEST(NetworkDecay, ADamagedModelIsRefused) {
  const std::string data = data_file("damaged.csv", 60, "number", 8), model = scratch("whole.json");
  run("tune " + data + " --model mlp --layers 2 --penalty global --grid 3 --save " + model);
  json j = json::parse(slurp(model));
  for (const json& layers : {json::array(), json{3}, json{0}, json{1e18}, json{-1}, json("2")}) {
    j["layers"] = layers;
    const Result r = run("predict " + write("damaged.json", j.dump()) + " " + data);
    EXPECT_EQ(r.code, 2) << layers << r.out;
    EXPECT_NE(r.err.find("damaged.json"), std::string::npos) << r.err;
  }
}

TEST(NetworkDecay, PredictNamesWhatWritesAndReadsAFile) {
  const std::string data = data_file("named.csv", 20, "number", 9);
  const Result missing = run("predict /nowhere/model.json " + data);
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("the file cannot be read; a model is written by bilevel tune --save FILE"),
            std::string::npos)
      << missing.err;
  const Result learner =
      run("predict " + write("sines.learner", "{\"format\":\"bilevel-learner\",\"version\":1}\nbytes") + " " +
          data);
  EXPECT_EQ(learner.code, 2);
  EXPECT_NE(learner.err.find("it is a learner"), std::string::npos) << learner.err;
  EXPECT_NE(learner.err.find("bilevel meta adapt"), std::string::npos) << learner.err;
}

}  // namespace network_decay_test
