#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include <bilevel/encoding/base64.hpp>
#include <bilevel/models/json.hpp>
#include <bilevel/version.hpp>

#include "outer/describe.hpp"

namespace bilevel::models {
namespace {

using Json = bilevel::Description;

std::string pretty(const Json& object) {
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json known(const std::optional<double>& x) {
  return x ? finite_or_null(*x) : Json(nullptr);
}

std::string_view loss_text(Model model) {
  return model == Model::softmax ? "log Σ_c exp(m_ic) − m_iy" : model.loss_kind().formula;
}

/// What the letters of that text stand for.
std::string where_text(const Prepared& p) {
  if (p.model == Model::softmax) return "";
  if (p.model.classifies())
    return fmt::format("; y_i = +1 is '{}', −1 is '{}'", p.classes.at(1), p.classes.at(0));
  const std::string_view legend = p.model.loss_kind().legend;
  return legend.empty() ? "" : fmt::format("; {}", legend);
}

Json described(const Quality& q) {
  Json j{{"loss", finite_or_null(q.loss)},
         {"rows", q.rows},
         {"standard_error", finite_or_null(q.standard_error)}};
  if (q.accuracy) j["accuracy"] = *q.accuracy;
  if (q.auc) j["auc"] = *q.auc;
  if (q.rmse) j["rmse"] = finite_or_null(*q.rmse);
  if (q.r2) j["r2"] = finite_or_null(*q.r2);
  return j;
}

Json data_part(const Prepared& p, const TuneOptions& options) {
  Json j{{"source", p.source},
         {"format", p.format},
         {"storage", p.storage},
         {"features", p.names.size()},
         {"nonzeros", p.nonzeros},
         {"rows", {{"training", p.training_rows}, {"validation", p.validation_rows}, {"test", p.test_rows}}},
         {"splitting", p.splitting},
         {"target", p.target},
         {"classes", p.classes},
         {"standardized", options.standardize},
         {"constant", p.constant},
         {"notes", p.notes}};
  return j;
}

Json model_part(const Prepared& p, const TuneOptions& options) {
  const bool l1 = p.model == Model::lasso || p.model == Model::elastic_net;
  const std::string penalty =
      p.network() ? std::string("½ Σ_k exp(θ_k) φ_k²")
      : l1 ? std::string("Σ_j exp(θ_j)|φ_j|") + (p.model == Model::elastic_net ? " + ½ exp(θ₂) Σ_j φ_j²" : "")
      : p.outputs > 1 ? std::string(options.penalty == Penalty::per_class ? "½ Σ_c exp(θ_c) Σ_j φ_jc²"
                                                                          : "½ Σ_j exp(θ_j) Σ_c φ_jc²")
                      : std::string("½ Σ_j exp(θ_j) φ_j²");
  Json j{{"name", name(p.kind())},
         {"title", title(p.kind())},
         {"penalty", name(options.penalty)},
         {"intercept", options.intercept},
         {"inner", fmt::format("mean over the training rows of [{}] + {}{}", loss_text(p.model), penalty,
                               where_text(p))},
         {"outer", fmt::format("mean over the validation rows of [{}], without penalty{}", loss_text(p.model),
                               p.held_out ? "" : ", and the mean of that over the folds")}};
  if (p.network()) {
    j["layers"] = p.layers;
    j["activation"] = name(p.activation);
    j["last_layer"] = name(p.model);
    j["parameters"] = p.shape().size();
  }
  if (std::string key(p.model.loss_kind().parameter); !key.empty()) {
    std::replace(key.begin(), key.end(), '-', '_');
    j[key] = p.loss_parameter;
  }
  return j;
}

Json penalty_list(const Tuned& r) {
  Json list = Json::array();
  for (Index k = 0; k < r.chosen.log_lambda.size(); ++k) {
    const auto bound = at_bound(r, r.chosen.log_lambda[k]);
    list.push_back({{"name", r.chosen.names[static_cast<std::size_t>(k)]},
                    {"log_lambda", r.chosen.log_lambda[k]},
                    {"at_bound", bound ? Json(*bound) : Json(nullptr)}});
  }
  return list;
}

Json coefficient_list(const Prepared& p, const Tuned& r) {
  Json list = Json::array();
  if (p.network()) return list;  // which say nothing one by one
  const Index c = p.outputs;
  for (Index k = 0; k < r.chosen.coefficients.size(); ++k) {
    const auto j = static_cast<std::size_t>(k / c);
    Json row{{"name", j < p.names.size() ? p.names[j] : "(intercept)"}};
    if (c > 1) row["class"] = p.classes[static_cast<std::size_t>(k % c)];
    row["grid"] = k < r.grid.coefficients.size() ? finite_or_null(r.grid.coefficients[k]) : Json(nullptr);
    row["tuned"] = finite_or_null(r.chosen.coefficients[k]);
    list.push_back(std::move(row));
  }
  return list;
}

/// Where features are pixels: log λ of the weights that leave each, ink where it is small.
Json penalty_pictures(const Prepared& p, const Tuned& r) {
  Json list = Json::array();
  if (!p.image || r.chosen.log_lambda.size() < p.penalties.count || p.penalties.count < 2) return list;
  const auto features = static_cast<Index>(p.columns.size()), width = p.shape().units(0);
  Vec means = Vec::Zero(features);
  for (Index k = 0; k < features * width; ++k)
    means[k / width] +=
        r.chosen.log_lambda[p.penalties.of[static_cast<std::size_t>(k)]] / static_cast<double>(width);
  const double least = means.minCoeff(), spread = means.maxCoeff() - least;
  if (!(spread > 0)) return list;
  std::vector<unsigned char> bytes(static_cast<std::size_t>(p.image->first * p.image->second), 0);
  for (Index j = 0; j < features; ++j)
    bytes[static_cast<std::size_t>(p.columns[static_cast<std::size_t>(j)])] =
        static_cast<unsigned char>(std::lround(255 * (1 - (means[j] - least) / spread)));
  std::string pixels;
  bilevel::append_base64(bytes.data(), bytes.size(), pixels);
  list.push_back(
      {{"width", p.image->second},
       {"height", p.image->first},
       {"pixels", std::move(pixels)},
       {"caption", fmt::format("log λ from {:.2f} (ink) to {:.2f} (paper)", least, least + spread)}});
  return list;
}

Json describe_choice(const Choice& c) {
  Json j{{"kind", c.kind}, {"gamma", known(c.gamma)}, {"score", nullptr}};
  if (c.score)
    j["score"] = {{"rho", finite_or_null(c.score->rho)},
                  {"nu", finite_or_null(c.score->nu)},
                  {"p", finite_or_null(c.score->p)}};
  j["gain"] = known(c.gain);
  j["gain_error"] = known(c.gain_error);
  j["prior"] = nullptr;
  if (c.prior_width)
    j["prior"] = {
        {"width", *c.prior_width}, {"loss_scale", known(c.loss_scale)}, {"precision", known(c.precision)}};
  j["answers"] = c.answers;
  return j;
}

/// The rows reported, and always the hundred most suspicious.
Json suspects(const CleanData& c, const Cleaned& r) {
  Json list = Json::array();
  const auto count = std::min(r.order.size(), static_cast<std::size_t>(std::max<Index>(r.flagged, 100)));
  for (std::size_t k = 0; k < count; ++k) {
    const Index i = r.order[k];
    Json row{{"rank", k + 1},
             {"row", r.rows[static_cast<std::size_t>(i)]},
             {"label", r.label(i)},
             {"weight", finite_or_null(r.weights[i])},
             {"predicted", r.prediction(i)}};
    if (!c.original.empty()) {
      const int original = c.original[static_cast<std::size_t>(i)];
      row["corrupted"] = original != r.labels[static_cast<std::size_t>(i)];
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
    const bool wrong = !c.original.empty() &&
                       c.original[static_cast<std::size_t>(i)] != r.labels[static_cast<std::size_t>(i)];
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
                                         r.rows[static_cast<std::size_t>(i)], r.label(i), r.prediction(i))}};
    if (!c.original.empty()) {
      const bool wrong = c.original[static_cast<std::size_t>(i)] != r.labels[static_cast<std::size_t>(i)];
      picture["status"] = wrong ? "corrupted" : "original";
    }
    list.push_back(std::move(picture));
  }
  return list;
}

}  // namespace

std::string data_as_json(const Prepared& prepared, const TuneOptions& options) {
  return pretty(data_part(prepared, options));
}

std::string model_as_json(const Prepared& prepared, const TuneOptions& options) {
  return pretty(model_part(prepared, options));
}

std::string as_json(const Prepared& p, const TuneOptions& options, const Tuned& r,
                    const std::string& command_line) {
  const bilevel::Summary& s = r.summary;
  Json j;
  j["command"] = "tune";
  j["version"] = bilevel::version;
  j["status"] = r.interrupted ? "interrupted" : std::string(name(s.status));
  j["message"] = s.message;
  j["command_line"] = command_line;
  j["data"] = data_part(p, options);
  j["model"] = model_part(p, options);
  j["model"]["hyperparameters"] = r.chosen.theta.size();
  j["model"]["bounds"] = {r.lower, r.upper};
  j["choice"] = describe_choice(r.choice);
  j["train_loss"] = finite_or_null(r.chosen.train_loss);
  j["validation_loss"] = finite_or_null(r.chosen.validation_loss);
  j["validation"] = described(r.chosen.validation);
  j["test"] = r.chosen.test ? described(*r.chosen.test) : Json(nullptr);
  if (r.chosen.test) j["test"]["difference_error"] = finite_or_null(r.test_difference_error);
  j["penalties"] = penalty_list(r);
  j["images"] = penalty_pictures(p, r);
  j["coefficients"] = coefficient_list(p, r);
  // Of a run that ended early some models are empty.
  const auto baseline = [&](const Fitted& f) {
    const double log_lambda = f.theta.size() > 0 ? f.theta[0] : bilevel::unknown;
    return Json{{"train_loss", finite_or_null(f.train_loss)},
                {"validation_loss", finite_or_null(f.validation_loss)},
                {"validation", described(f.validation)},
                {"test", f.test ? described(*f.test) : Json(nullptr)},
                {"lambda", finite_or_null(std::exp(log_lambda))},
                {"log_lambda", finite_or_null(log_lambda)}};
  };
  Json grid = baseline(r.grid);
  grid["fits"] = r.grid_fits;
  grid["seconds"] = r.grid_seconds;
  grid["points"] = Json::array();
  double before = 0;
  for (const GridPoint& point : r.points) {
    grid["points"].push_back({{"log_lambda", point.log_lambda},
                              {"validation_loss", finite_or_null(point.validation_loss)},
                              {"seconds", point.seconds - before}});
    before = point.seconds;
  }
  j["baseline"] = {{"grid", std::move(grid)}, {"default", baseline(r.standard)}};
  if (r.standard.test)
    j["baseline"]["default"]["test"]["difference_error"] = finite_or_null(r.standard_difference_error);
  j["warnings"] = r.warnings;
  j["certificate"] = described(s.certificate);
  j["gradient_norm"] = finite_or_null(s.gradient_norm);
  j["at_kink"] = s.at_kink;
  j["fits"] = r.fits;
  j["iterations"] = s.iterations;
  j["evaluations"] = s.evaluations;
  j["solvers"] = r.solvers;
  j["cost"] = described(s.cost);
  j["seconds"] = r.seconds;
  j["resumed"] = s.resumed;
  // The descent's losses are in the units that it works in.
  std::vector<bilevel::HistoryEntry> history = s.history;
  for (auto& h : history) h.outer_value *= r.loss_scale;
  j["history"] = described(history);
  return pretty(j);
}

std::string as_json(const CleanData& c, const CleanOptions& options, const Cleaned& r,
                    const std::string& command_line) {
  const bilevel::Summary& s = r.summary;
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
      {"bounds", {-clean_bound, clean_bound}}};
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
        {"before", known(r.accuracy_before)}, {"after", known(r.accuracy_after)}, {"test_rows", c.test_rows}};
  j["trusted_loss"] = {{"before", finite_or_null(r.loss_before)}, {"after", finite_or_null(r.loss_after)}};
  j["suspects"] = suspects(c, r);
  j["weights_histogram"] = histogram(c, r);
  j["images"] = pictures(c, r);
  j["warnings"] = r.warnings;
  j["certificate"] = described(s.certificate);
  j["gradient_norm"] = finite_or_null(s.gradient_norm);
  j["iterations"] = s.iterations;
  j["evaluations"] = s.evaluations;
  j["cost"] = described(s.cost);
  j["seconds"] = r.seconds;
  j["resumed"] = s.resumed;
  j["history"] = described(s.history);
  return pretty(j);
}

}  // namespace bilevel::models
