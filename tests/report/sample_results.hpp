#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace report_test {

using Json = nlohmann::ordered_json;

inline Json history(int steps, double from, double to) {
  Json list = Json::array();
  for (int i = 0; i < steps; ++i) {
    const double norm = 0.1 * std::pow(0.6, i);
    list.push_back({{"iteration", i},
                    {"accepted", i != 3},
                    {"outer_value", to + (from - to) * std::pow(0.8, i) + (i == 3 ? 0.01 : 0)},
                    {"gradient_norm", norm},
                    {"bound", i == 0 ? Json(nullptr) : Json(norm * 0.01)},
                    {"kind", i == 0 ? "none" : "rigorous"},
                    {"verdict", i == 0 ? "untrusted" : "trusted"},
                    {"inner_tolerance", 0.001 * std::pow(0.6, i)},
                    {"seconds", 0.05 * (i + 1)}});
  }
  return list;
}

inline Json certificate() {
  return {{"kind", "rigorous"},
          {"verdict", "trusted"},
          {"bound", 3.5e-9},
          {"reason", "the local form: curvature at least 0.012 on the ball around the state"}};
}

/// A result of `bilevel tune` with every field: every third feature useless, its penalty at the upper bound.
inline Json tune_result(int features = 22, int classes = 2, int steps = 25) {
  std::mt19937_64 engine(11);
  std::normal_distribution<double> normal;
  Json penalties = Json::array(), coefficients = Json::array(), points = Json::array();
  for (int j = 0; j < features; ++j) {
    const bool useless = j % 3 == 2;
    penalties.push_back({{"name", fmt::format("feature {}", j + 1)},
                         {"log_lambda", useless  ? 10
                                        : j == 0 ? -10
                                                 : 2 * normal(engine) - 4},
                         {"at_bound", useless  ? Json("upper")
                                      : j == 0 ? Json("lower")
                                               : Json(nullptr)}});
    for (int c = 0; c < (classes > 2 ? classes : 1); ++c) {
      const double value = normal(engine);
      coefficients.push_back({{"name", fmt::format("feature {}", j + 1)},
                              {"grid", 0.7 * value},
                              {"tuned", useless ? 1e-5 * value : value}});
      if (classes > 2) coefficients.back()["class"] = fmt::format("class {}", c);
    }
  }
  for (int i = 0; i <= 20; ++i)
    points.push_back({{"log_lambda", -10 + i},
                      {"validation_loss", 0.392 + 0.004 * (i - 7) * (i - 7)},
                      {"train_loss", 0.3 + 0.01 * i},
                      {"seconds", 0.06}});
  const auto test = [](double loss, double accuracy, double auc) {
    return Json{
        {"loss", loss}, {"rows", 1000}, {"accuracy", accuracy}, {"auc", auc}, {"standard_error", 0.012}, {"difference_error", 0.004}};
  };
  Json classes_list = Json::array();
  for (int c = 0; c < classes; ++c) classes_list.push_back(fmt::format("class {}", c));
  return {{"command", "tune"},
          {"version", "0.4.0"},
          {"status", "converged"},
          {"message", "the projected gradient 2.1e-07 is below 1e-06 after 24 steps"},
          {"command_line", "bilevel tune patients.csv --target ill --penalty per-feature --seed 1"},
          {"data",
           {{"source", "patients.csv"},
            {"format", "csv"},
            {"storage", "dense"},
            {"features", features},
            {"nonzeros", 12345678},
            {"rows", {{"training", 3000}, {"validation", 1000}, {"test", 1000}}},
            {"splitting", "hold-out 20 %, stratified, seed 1"},
            {"target", "ill"},
            {"classes", classes_list},
            {"standardized", true},
            {"constant", {"site", "year"}},
            {"notes", {"2 columns were one-hot encoded."}},
            {"groups", {"blood", "lifestyle", "history"}}}},
          {"model",
           {{"name", classes > 2 ? "softmax" : "logistic"},
            {"title", classes > 2 ? "a softmax regression" : "a logistic regression"},
            {"penalty", "per-feature"},
            {"intercept", true},
            {"hyperparameters", features},
            {"inner", "1/n Σᵢ log(1 + exp(−yᵢ xᵢ·φ)) + ½ Σⱼ exp(θⱼ) φⱼ²"},
            {"outer", "1/m Σᵢ log(1 + exp(−yᵢ xᵢ·φ*))"},
            {"bounds", {-10, 10}}}},
          {"train_loss", 0.3311},
          {"validation_loss", 0.371},
          {"validation", {{"loss", 0.371}, {"accuracy", 0.861}, {"auc", 0.921}}},
          {"test", test(0.3899, 0.853, 0.912)},
          {"penalties", penalties},
          {"coefficients", coefficients},
          {"baseline",
           {{"grid",
             {{"validation_loss", 0.392},
              {"test", test(0.401, 0.842, 0.905)},
              {"fits", 21},
              {"seconds", 1.26},
              {"lambda", std::exp(-3.0)},
              {"log_lambda", -3},
              {"points", points}}},
            {"default",
             {{"validation_loss", 0.412},
              {"test", test(0.417, 0.831, 0.893)},
              {"lambda", 1},
              {"log_lambda", 0}}}}},
          {"warnings",
           {"The test loss is 5 % above the validation loss: 22 penalties fit 1000 validation rows closely. "
            "Try --cv 5 or --penalty per-group."}},
          {"certificate", certificate()},
          {"gradient_norm", 2.1e-7},
          {"iterations", 24},
          {"evaluations", steps},
          {"seconds", 1.25},
          {"history", history(steps, 0.392, 0.371)}};
}

inline std::string base64_of(const std::vector<unsigned char>& bytes) {
  const char* const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned word = 0;
    for (std::size_t k = 0; k < 3; ++k) word = word << 8 | (i + k < bytes.size() ? bytes[i + k] : 0u);
    for (std::size_t k = 0; k < 4; ++k)
      text += i + k > bytes.size() ? '=' : digits[word >> (18 - 6 * k) & 63];
  }
  return text;
}

/// A ring of ink, different for each number.
inline Json ring(int number, int width = 28, int height = 28) {
  std::vector<unsigned char> pixels;
  for (int row = 0; row < height; ++row)
    for (int column = 0; column < width; ++column) {
      const double distance = std::hypot(row - height / 2.0, column - width / 2.0) - (4 + number % 8);
      pixels.push_back(static_cast<unsigned char>(255 * std::exp(-distance * distance / 2)));
    }
  return {
      {"width", width},
      {"height", height},
      {"pixels", base64_of(pixels)},
      {"caption", fmt::format("row {}: labelled {}, looks like {}", number, number % 10, (number + 3) % 10)},
      {"status", number % 4 == 1 ? "clean" : "corrupted"}};
}

/// A result of `bilevel clean` with every field.
inline Json clean_result(int samples = 5000, int images = 24) {
  Json suspects = Json::array(), pictures = Json::array(), edges = Json::array();
  for (int i = 0; i < samples; ++i)
    suspects.push_back({{"rank", i + 1},
                        {"row", (i * 7919) % samples},
                        {"label", fmt::format("{}", i % 10)},
                        {"weight", 1 / (1 + std::exp(8 - 16.0 * i / samples))},
                        {"predicted", fmt::format("{}", (i + 3) % 10)},
                        {"corrupted", i < samples / 2},
                        {"original", fmt::format("{}", (i + 3) % 10)}});
  for (int i = 0; i < images; ++i) pictures.push_back(ring(i));
  for (int i = 0; i <= 10; ++i) edges.push_back(i / 10.0);
  return {{"command", "clean"},
          {"version", "0.4.0"},
          {"status", "converged"},
          {"message", "the projected gradient 2.1e-07 is below 1e-06 after 24 steps"},
          {"command_line", "bilevel clean train-images.idx --corrupt 0.5 --seed 1"},
          {"data",
           {{"source", "train-images.idx"},
            {"format", "idx"},
            {"storage", "dense"},
            {"features", 784},
            {"rows", {{"training", samples}, {"trusted", 5000}, {"test", 10000}}},
            {"splitting", "seed 1"},
            {"target", "label"},
            {"classes", {"0", "1", "2"}},
            {"standardized", false},
            {"notes", {"Pixels were divided by 255."}}}},
          {"model",
           {{"name", "softmax"},
            {"lambda", 0.01},
            {"inner", "1/n Σᵢ σ(θᵢ) ℓᵢ(φ) + ½ λ ‖φ‖²"},
            {"outer", "1/m Σᵢ ℓᵢ(φ*) over the trusted rows"},
            {"hyperparameters", samples}}},
          {"suspects", suspects},
          {"samples", samples},
          {"flagged", 2480},
          {"threshold", 0.5},
          {"truth",
           {{"corrupted", 2500},
            {"precision", 0.9677419354838710},
            {"recall", 0.96},
            {"f1", 0.9638554216867470}}},
          {"accuracy", {{"before", 0.781}, {"after", 0.902}, {"test_rows", 10000}}},
          {"trusted_loss", {{"before", 0.912}, {"after", 0.334}}},
          {"weights_histogram",
           {{"edges", edges},
            {"clean", {40, 20, 10, 8, 2, 10, 30, 80, 300, 2000}},
            {"corrupted", {1900, 300, 100, 60, 40, 40, 20, 20, 10, 10}}}},
          {"images", pictures},
          {"history", history(25, 0.912, 0.334)},
          {"certificate", certificate()},
          {"gradient_norm", 2.1e-7},
          {"iterations", 24},
          {"seconds", 95.2},
          {"warnings", {"Only 12 trusted rows have the label “7”."}}};
}

}  // namespace report_test
