#include "data_output.hpp"

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

std::string loss_text(tuning::Model model) {
  switch (model) {
    case tuning::Model::logistic:
      return "log(1 + exp(−y_i m_i))";
    case tuning::Model::softmax:
      return "log Σ_c exp(m_ic) − m_iy";
    case tuning::Model::poisson:
      return "exp(m_i) − y_i m_i";
    case tuning::Model::huber:
      return "h(m_i − y_i)";
    case tuning::Model::squared_hinge:
      return "½ max(0, 1 − y_i m_i)²";
    default:
      return "½ (m_i − y_i)²";
  }
}

/// What the letters of that text stand for.
std::string where_text(const tuning::Prepared& p) {
  switch (p.model) {
    case tuning::Model::logistic:
    case tuning::Model::squared_hinge:
      return fmt::format("; y_i = +1 is '{}', −1 is '{}'", p.classes.at(1), p.classes.at(0));
    case tuning::Model::huber:
      return "; h(r) = ½r² where |r| ≤ k, k|r| − ½k² beyond";
    default:
      return "";
  }
}

}  // namespace

Json describe(const tuning::Quality& q) {
  Json j{{"loss", number(q.loss)}, {"rows", q.rows}, {"standard_error", number(q.standard_error)}};
  if (q.accuracy) j["accuracy"] = *q.accuracy;
  if (q.auc) j["auc"] = *q.auc;
  if (q.rmse) j["rmse"] = number(*q.rmse);
  if (q.r2) j["r2"] = number(*q.r2);
  return j;
}

Json describe_data(const tuning::Task& task, const tuning::Prepared& p) {
  Json j{{"source", p.source},
         {"format", p.format},
         {"storage", p.storage},
         {"features", p.names.size()},
         {"nonzeros", p.nonzeros},
         {"rows", {{"training", p.training_rows}, {"validation", p.validation_rows}, {"test", p.test_rows}}},
         {"splitting", p.splitting},
         {"target", p.target},
         {"classes", p.classes},
         {"standardized", task.standardize},
         {"constant", p.constant},
         {"notes", p.notes}};
  return j;
}

Json describe_model(const tuning::Task& task, const tuning::Prepared& p) {
  const bool l1 = p.model == tuning::Model::lasso || p.model == tuning::Model::elastic_net;
  const std::string penalty =
      l1 ? std::string("Σ_j exp(θ_j)|φ_j|") +
               (p.model == tuning::Model::elastic_net ? " + ½ exp(θ₂) Σ_j φ_j²" : "")
      : p.outputs > 1 ? std::string(task.penalty == tuning::Penalty::per_class ? "½ Σ_c exp(θ_c) Σ_j φ_jc²"
                                                                               : "½ Σ_j exp(θ_j) Σ_c φ_jc²")
                      : std::string("½ Σ_j exp(θ_j) φ_j²");
  Json j{{"name", name(p.model)},
         {"penalty", name(task.penalty)},
         {"intercept", task.intercept},
         {"inner", fmt::format("mean over the training rows of [{}] + {}{}", loss_text(p.model), penalty,
                               where_text(p))},
         {"outer", fmt::format("mean over the validation rows of [{}], without penalty{}", loss_text(p.model),
                               p.held_out ? "" : ", and the mean of that over the folds")}};
  if (p.model == tuning::Model::huber) j["huber_threshold"] = p.huber_threshold;
  return j;
}

void print_certificate(const bilevel::Certificate& c) {
  print_entry("certificate",
              fmt::format("{} {}, bound {:.3g}: {}", name(c.kind), name(c.verdict), c.bound, c.reason));
}

std::uint64_t features_checksum(const bilevel::problems::ModelMatrix& matrix) {
  // Column sums stand for the features, weighted by the row: their order matters too.
  Eigen::VectorXd sums = Eigen::VectorXd::Zero(matrix.features());
  for (Index i = 0; i < matrix.rows(); ++i) {
    const double weight = 1 + 1e-3 * static_cast<double>(i % 1009);
    matrix.for_each(i, [&](Index j, double x) { sums[j] += weight * x; });
  }
  return bilevel::checksum(sums);
}

void remember_command_line(int argc, char** argv) {
  remembered = "bilevel";
  for (int i = 1; i < argc; ++i) remembered += " " + quoted(argv[i]);
}

std::string command_line() {
  return remembered;
}

}  // namespace app
