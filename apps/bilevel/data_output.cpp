#include "data_output.hpp"

#include <string_view>

#include "interrupt.hpp"

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
      return "log(1 + exp(−y_i m_i)), y_i = ±1";
    case tuning::Model::softmax:
      return "log Σ_c exp(m_ic) − m_iy";
    case tuning::Model::poisson:
      return "exp(m_i) − y_i m_i";
    case tuning::Model::huber:
      return "½ r_i² where |r_i| ≤ k, k|r_i| − ½k² beyond, r_i = m_i − y_i";
    case tuning::Model::squared_hinge:
      return "½ max(0, 1 − y_i m_i)², y_i = ±1";
    default:
      return "½ (m_i − y_i)²";
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
         {"hyperparameters", p.thetas()},
         {"inner", fmt::format("mean over the training rows of {} + {}", loss_text(p.model), penalty)},
         {"outer", fmt::format("mean over the validation rows of {}, without penalty{}", loss_text(p.model),
                               p.held_out ? "" : ", and the mean of that over the folds")},
         {"bounds", {task.lower, task.upper}}};
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

tuning::TuneControl control_of(std::string_view command, const std::string& given, bool resume,
                               std::string identity, Progress& progress) {
  tuning::TuneControl control;
  control.checkpoint = !given.empty() ? given
                                      : fmt::format("bilevel-{}-{:08x}.ckpt", command,
                                                    bilevel::checksum(identity) & 0xffffffff);
  require_writable(control.checkpoint);
  catch_interrupts();
  control.resume = resume;
  control.identity = std::move(identity);
  control.progress = [&progress](const std::string& text) { progress.show(text); };
  control.interrupted = [] { return interrupted(); };
  return control;
}

void remember_command_line(int argc, char** argv) {
  remembered = "bilevel";
  for (int i = 1; i < argc; ++i) remembered += " " + quoted(argv[i]);
}

std::string command_line() {
  return remembered;
}

}  // namespace app
