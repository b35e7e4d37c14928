#include "clean_output.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <bilevel/encoding/base64.hpp>

namespace app {
namespace {

using bilevel::models::CleanData;
using bilevel::models::Cleaned;

/// The rows reported, and always the hundred most suspicious.
Json suspects(const CleanData& c, const Cleaned& r) {
  Json list = Json::array();
  const auto count = std::min(r.order.size(), static_cast<std::size_t>(std::max<Index>(r.flagged, 100)));
  for (std::size_t k = 0; k < count; ++k) {
    const Index i = r.order[k];
    Json row{{"rank", k + 1},
             {"row", c.source_rows[static_cast<std::size_t>(i)]},
             {"label", label_of(c, i)},
             {"weight", number(r.weights[i])},
             {"predicted", prediction_of(c, r, i)}};
    if (!c.original.empty()) {
      const int original = c.original[static_cast<std::size_t>(i)];
      row["corrupted"] = original != (*c.samples.classes)[static_cast<std::size_t>(i)];
      row["original"] = c.classes[static_cast<std::size_t>(original)];
    }
    list.push_back(std::move(row));
  }
  return list;
}

Json histogram(const CleanData& c, const Cleaned& r) {
  constexpr int bins = 20;
  Json edges = Json::array();
  for (int b = 0; b <= bins; ++b) edges.push_back(static_cast<double>(b) / bins);
  std::vector<Index> clean(bins, 0), corrupted(bins, 0);
  for (Index i = 0; i < r.weights.size(); ++i) {
    const auto bin = static_cast<std::size_t>(std::clamp(r.weights[i] * bins, 0.0, bins - 1.0));
    const bool wrong = !c.original.empty() && c.original[static_cast<std::size_t>(i)] !=
                                                  (*c.samples.classes)[static_cast<std::size_t>(i)];
    ++(wrong ? corrupted : clean)[bin];
  }
  if (c.original.empty()) return {{"edges", edges}, {"counts", clean}};
  return {{"edges", edges}, {"clean", clean}, {"corrupted", corrupted}};
}

Json pictures(const CleanData& c, const Cleaned& r) {
  Json list = Json::array();
  if (!c.image) return list;
  for (std::size_t k = 0; k < std::min<std::size_t>(r.order.size(), 60); ++k) {
    const Index i = r.order[k];
    const std::vector<unsigned char> bytes = c.picture(i);
    std::string pixels;
    bilevel::append_base64(bytes.data(), bytes.size(), pixels);
    Json picture{{"width", c.image->second},
                 {"height", c.image->first},
                 {"pixels", std::move(pixels)},
                 {"caption", fmt::format("row {}: labelled {}, looks like {}",
                                         c.source_rows[static_cast<std::size_t>(i)], label_of(c, i),
                                         prediction_of(c, r, i))}};
    if (!c.original.empty()) {
      const bool wrong =
          c.original[static_cast<std::size_t>(i)] != (*c.samples.classes)[static_cast<std::size_t>(i)];
      picture["status"] = wrong ? "corrupted" : "original";
    }
    list.push_back(std::move(picture));
  }
  return list;
}

}  // namespace

std::string label_of(const CleanData& c, Index training_row) {
  return c.classes[static_cast<std::size_t>((*c.samples.classes)[static_cast<std::size_t>(training_row)])];
}

std::string prediction_of(const CleanData& c, const Cleaned& r, Index training_row) {
  return c.classes[static_cast<std::size_t>(r.predicted[static_cast<std::size_t>(training_row)])];
}

Json clean_result(const bilevel::models::CleanOptions& options, const std::string& command_line, const CleanData& c,
                  const Cleaned& r) {
  const bilevel::Summary& s = r.summary;
  const auto maybe = [](const std::optional<double>& x) { return x ? number(*x) : Json(nullptr); };
  Json j;
  j["command"] = "clean";
  j["version"] = bilevel::version;
  j["status"] = std::string(name(s.status));
  j["message"] = s.message;
  j["command_line"] = command_line;
  j["data"] = {{"source", c.source},
               {"format", c.format},
               {"storage", c.storage},
               {"features", c.columns.size()},
               {"nonzeros", c.nonzeros},
               {"rows", {{"training", c.training_rows}, {"trusted", c.trusted_rows}, {"test", c.test_rows}}},
               {"splitting", c.splitting},
               {"target", c.target},
               {"classes", c.classes},
               {"standardized", false},
               {"scaling", c.scaling},
               {"constant", c.constant},
               {"notes", c.notes}};
  j["model"] = {
      {"name", "softmax"},
      {"lambda", c.lambda},
      {"inner", "1/n Σ_i σ(θ_i)·(log Σ_c exp(m_ic) − m_iy) + ½λ‖φ‖², m_i = x_i·φ, the intercepts in φ"},
      {"outer", "mean over the trusted rows of log Σ_c exp(m_ic) − m_iy, without penalty"},
      {"hyperparameters", c.training_rows},
      {"bounds", {-bilevel::models::clean_bound, bilevel::models::clean_bound}}};
  j["samples"] = c.training_rows;
  j["flagged"] = r.flagged;
  j["below_threshold"] = r.light;
  j["threshold"] = options.threshold;
  j["truth"] = nullptr;
  if (r.truth)
    j["truth"] = {{"corrupted", r.truth->corrupted},
                  {"precision", r.truth->precision},
                  {"recall", r.truth->recall},
                  {"f1", r.truth->f1}};
  j["accuracy"] = nullptr;
  if (r.accuracy_before)
    j["accuracy"] = {
        {"before", maybe(r.accuracy_before)}, {"after", maybe(r.accuracy_after)}, {"test_rows", c.test_rows}};
  j["trusted_loss"] = {{"before", number(r.loss_before)}, {"after", number(r.loss_after)}};
  j["suspects"] = suspects(c, r);
  j["weights_histogram"] = histogram(c, r);
  j["images"] = pictures(c, r);
  j["warnings"] = r.warnings;
  j["certificate"] = describe(s.certificate);
  j["gradient_norm"] = number(s.gradient_norm);
  j["iterations"] = s.iterations;
  j["evaluations"] = s.evaluations;
  j["cost"] = describe(s.cost);
  j["seconds"] = r.seconds;
  j["resumed"] = s.resumed;
  j["history"] = describe(s.history);
  return j;
}

std::string ranking_text(const CleanData& c, const Cleaned& r) {
  std::string text = "rank,row,label,weight,predicted\n";
  for (std::size_t k = 0; k < r.order.size(); ++k) {
    const Index i = r.order[k];
    text += fmt::format("{},{},{},{:.6g},{}\n", k + 1, c.source_rows[static_cast<std::size_t>(i)],
                        csv_cell(label_of(c, i)), r.weights[i], csv_cell(prediction_of(c, r, i)));
  }
  return text;
}

}  // namespace app
