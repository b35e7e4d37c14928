#include "data_output.hpp"

#include <algorithm>
#include <string_view>

#include "terminal.hpp"

namespace app {
namespace {

std::string remembered;

std::string quoted(std::string_view word) {
  const std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos) return std::string(word);
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string_view loss_text(bilevel::models::Model model) {
  return model == bilevel::models::Model::softmax ? "log Σ_c exp(m_ic) − m_iy" : model.loss_kind().formula;
}

/// What the letters of that text stand for.
std::string where_text(const bilevel::models::Prepared& p) {
  if (p.model == bilevel::models::Model::softmax) return "";
  if (p.model.classifies())
    return fmt::format("; y_i = +1 is '{}', −1 is '{}'", p.classes.at(1), p.classes.at(0));
  const std::string_view legend = p.model.loss_kind().legend;
  return legend.empty() ? "" : fmt::format("; {}", legend);
}

}  // namespace

Json describe(const bilevel::models::Quality& q) {
  Json j{{"loss", number(q.loss)}, {"rows", q.rows}, {"standard_error", number(q.standard_error)}};
  if (q.accuracy) j["accuracy"] = *q.accuracy;
  if (q.auc) j["auc"] = *q.auc;
  if (q.rmse) j["rmse"] = number(*q.rmse);
  if (q.r2) j["r2"] = number(*q.r2);
  return j;
}

Json describe_data(const bilevel::models::TuneOptions& options, const bilevel::models::Prepared& p) {
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

Json describe_model(const bilevel::models::TuneOptions& options, const bilevel::models::Prepared& p) {
  const bool l1 = p.model == bilevel::models::Model::lasso || p.model == bilevel::models::Model::elastic_net;
  const std::string penalty =
      l1 ? std::string("Σ_j exp(θ_j)|φ_j|") +
               (p.model == bilevel::models::Model::elastic_net ? " + ½ exp(θ₂) Σ_j φ_j²" : "")
      : p.outputs > 1 ? std::string(options.penalty == bilevel::models::Penalty::per_class ? "½ Σ_c exp(θ_c) Σ_j φ_jc²"
                                                                               : "½ Σ_j exp(θ_j) Σ_c φ_jc²")
                      : std::string("½ Σ_j exp(θ_j) φ_j²");
  Json j{{"name", name(p.model)},
         {"title", title(p.model)},
         {"penalty", name(options.penalty)},
         {"intercept", options.intercept},
         {"inner", fmt::format("mean over the training rows of [{}] + {}{}", loss_text(p.model), penalty,
                               where_text(p))},
         {"outer", fmt::format("mean over the validation rows of [{}], without penalty{}", loss_text(p.model),
                               p.held_out ? "" : ", and the mean of that over the folds")}};
  if (std::string key(p.model.loss_kind().parameter); !key.empty()) {
    std::replace(key.begin(), key.end(), '-', '_');
    j[key] = p.loss_parameter;
  }
  return j;
}

void print_certificate(const bilevel::Certificate& c) {
  print_entry("certificate",
              fmt::format("{} {}, bound {:.3g}: {}", name(c.kind), name(c.verdict), c.bound, c.reason));
}

void remember_command_line(int argc, char** argv) {
  remembered = "bilevel";
  for (int i = 1; i < argc; ++i) remembered += " " + quoted(argv[i]);
}

std::string command_line() {
  return remembered;
}

}  // namespace app
