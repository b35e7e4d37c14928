#include "fold_model.hpp"

#include <utility>

#include <bilevel/gradient/automatic.hpp>
#include <bilevel/gradient/in_units.hpp>
#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/problems/penalised_model.hpp>
#include <bilevel/problems/perceptron.hpp>

#include "coordinate_descent.hpp"
#include "leaves_saddles.hpp"

namespace bilevel::models {
namespace {

using bilevel::problems::DataLoss;
using bilevel::problems::Lasso;
using bilevel::problems::PenalisedModel;
using bilevel::problems::PenaltyMap;
using bilevel::problems::Perceptron;
using bilevel::problems::RowLosses;

/// A fit that was not begun, since everything is to end: others of huge models still wait behind it.
FoldModel::Settled not_begun(bilevel::Status why, Vec start) {
  FoldModel::Settled settled;
  settled.phi = std::move(start);
  settled.status = why;
  settled.message = sentence(why);
  return settled;
}

/// Whether the Hessian is small enough to be formed: then Newton's method with a Cholesky factor settles it,
/// and that factor is the adjoint's; trust-region Newton and conjugate gradients beyond. A network's Hessian
/// has negative eigenvalues on the way, which only the latter can do with.
bool forms_hessian(const PenalisedModel& model) {
  return model.forms_hessian();
}
bool forms_hessian(const Perceptron&) {
  return false;
}

std::unique_ptr<bilevel::InnerSolver<Vec>> solver_of(PenalisedModel& model) {
  if (!forms_hessian(model)) return bilevel::make_inner_solver<Vec>("trust-region", model);
  return std::make_unique<bilevel::Minimiser<Vec>>(
      model, std::make_unique<bilevel::Newton<Vec>>(bilevel::NewtonOptions{.keep_factor = true}));
}
std::unique_ptr<bilevel::InnerSolver<Vec>> solver_of(Perceptron& model) {
  return std::make_unique<LeavesSaddles>(model);
}

RowHypergradients::Gradients row_gradients(PenalisedModel& model, const Vec& phi) {
  return linear_gradients(model.validation(), model.stored_coefficients(phi), [&model](const Vec& stored) {
    Vec own(model.initial_phi().size());
    model.pull_back(stored.data(), own.data());
    return own;
  });
}
RowHypergradients::Gradients row_gradients(Perceptron& model, const Vec& phi) {
  Vec psi = phi;
  model.to_own(psi);
  return [&model, psi](Index first, const RowHypergradients::Mat& mixtures) {
    RowHypergradients::Mat own(psi.size(), mixtures.cols());
    Vec shares = Vec::Zero(model.validation().row_count()), each(psi.size());
    for (Index a = 0; a < mixtures.cols(); ++a) {
      shares.segment(first, mixtures.rows()) = mixtures.col(a);
      model.validation_gradient(psi, shares, each);
      own.col(a) = each;
    }
    return own;
  };
}

/// A model with a smooth inner loss.
template <class Smooth>
class SmoothFold final : public FoldModel {
 public:
  explicit SmoothFold(std::unique_ptr<Smooth> model)
      : owned_(std::move(model)),
        model_(*owned_),
        inner_name_(forms_hessian(model_) ? "newton" : "trust-region"),
        adjoint_name_(forms_hessian(model_)                ? "direct"
                      : std::is_same_v<Smooth, Perceptron> ? "cg"
                                                           : "cg-jacobi"),
        inner_(solver_of(model_)) {}

  void use(PenaltyMap penalties) override { model_.set_penalty_map(std::move(penalties)); }

  Settled settle(const Vec& theta, const Vec* warm, double tolerance) override {
    if (warm && warm->size() != parameters_) warm = nullptr;
    if (const auto why = bilevel::stop_wanted(model_.stop_token()))
      return not_begun(*why, warm ? *warm : start_);
    bilevel::Solution<Vec> solution = settled(theta, warm, tolerance);
    Settled settled;
    if (!cut_short(solution.status)) settled.outer_value = model_.outer(solution.phi, theta, {});
    settled.status = solution.status;
    settled.message = std::move(solution.message);
    settled.phi = std::move(solution.phi);
    model_.to_true(settled.phi);
    return settled;
  }

  std::unique_ptr<bilevel::Estimator<Vec>> estimator() override {
    auto own = bilevel::make_estimator<Vec>("implicit-" + adjoint_name_, model_, *inner_, {});
    return std::make_unique<bilevel::InUnits<Vec>>(std::move(own), model_);
  }
  std::unique_ptr<RowHypergradients> row_hypergradients(const Vec& theta, const Vec& phi) override {
    model_.adopt_units(theta, phi);
    Vec psi = phi;
    model_.to_own(psi);
    return std::make_unique<RowHypergradients>(model_, model_.validation().row_count(), psi, theta,
                                               row_gradients(model_, phi), adjoint_name_);
  }
  std::string solvers() const override { return fmt::format("{}, adjoint {}", inner_name_, adjoint_name_); }

  Vec stored_coefficients(const Vec& phi) const override { return model_.stored_coefficients(phi); }
  Vec standardised_coefficients(const Vec& phi) const override {
    return model_.standardised_coefficients(phi);
  }
  void obey(const bilevel::StopToken* stop) override { model_.obey(stop); }
  Index parameters() const override { return parameters_; }
  RowLosses& training() override { return model_.training(); }
  RowLosses& validation() override { return model_.validation(); }

 private:
  /// In units of its own.
  bilevel::Solution<Vec> settled(const Vec& theta, const Vec* warm, double tolerance) {
    inner_->set_tolerance(tolerance);
    if constexpr (std::is_same_v<Smooth, Perceptron>) {
      // Units by the curvature at a start that is no minimum are rough: a rough state has better ones.
      Vec start = warm ? *warm : start_;
      model_.adopt_units(theta, start);
      model_.to_own(start);
      inner_->set_tolerance(std::max(tolerance, rough));
      bilevel::Solution<Vec> near = inner_->solve(theta, 0, start);
      if (tolerance >= rough || !succeeded(near.status)) return near;
      if (near.iterations > 0) {
        model_.to_true(near.phi);
        model_.adopt_units(theta, near.phi);
        model_.to_own(near.phi);
      }
      inner_->set_tolerance(tolerance);
      return inner_->solve(theta, 0, near.phi);
    } else {
      model_.adopt_units(theta);
      Vec start = warm ? *warm : model_.initial_phi();
      if (warm) model_.to_own(start);
      return inner_->solve(theta, 0, start);
    }
  }

  static constexpr double rough = 0.03;

  std::unique_ptr<Smooth> owned_;
  Smooth& model_;
  /// In its true size, of units that are powers of two: by those of a later fit it would differ in its last
  /// digits, and a run that goes on after it was killed from one that never was.
  const Vec start_ = [this] {
    Vec start = model_.initial_phi();
    model_.to_true(start);
    return start;
  }();
  Index parameters_ = start_.size();
  std::string inner_name_, adjoint_name_;
  std::unique_ptr<bilevel::InnerSolver<Vec>> inner_;
};

class LassoFold final : public FoldModel {
 public:
  LassoFold(const Prepared& p, const Split& part)
      : model_(p.samples, part.training, part.validation, part.standardisation, p.penalties,
               p.model == Model::elastic_net, p.intercept),
        prepared_(p),
        inner_(model_) {
    use(p.penalties);
  }

  void use(PenaltyMap penalties) override {
    model_.set_penalty_map(of_scaled_target(std::move(penalties), prepared_));
  }

  Settled settle(const Vec& theta, const Vec* warm, double tolerance) override {
    Vec start = model_.initial_phi();
    if (warm && warm->size() == start.size()) start = *warm;
    if (const auto why = bilevel::stop_wanted(model_.stop_token())) return not_begun(*why, std::move(start));
    Lasso::Settled found = model_.settle(theta, start, tolerance);
    Settled settled;
    settled.status = status_of(found, model_);
    settled.message = std::move(found.message);
    if (!cut_short(settled.status)) {
      settled.outer_value = model_.outer(found.phi, theta, {});
      settled.warning = model_.support(found.phi, theta).warning;
    }
    settled.phi = std::move(found.phi);
    return settled;
  }
  std::unique_ptr<bilevel::Estimator<Vec>> estimator() override {
    return bilevel::make_estimator<Vec>("implicit-cg-preconditioned",
                                        static_cast<bilevel::Equilibrium<Vec>&>(model_), inner_, {});
  }
  std::unique_ptr<RowHypergradients> row_hypergradients(const Vec& theta, const Vec& phi) override {
    return std::make_unique<RowHypergradients>(
        model_, model_.validation().row_count(), phi, theta,
        linear_gradients(model_.validation(), model_.stored_coefficients(phi),
                         [this](const Vec& stored) {
                           Vec own(model_.initial_phi().size());
                           model_.pull_back(stored, own);
                           return own;
                         }),
        "cg-preconditioned");
  }
  std::string solvers() const override { return "coordinate descent, adjoint on the support"; }
  Vec stored_coefficients(const Vec& phi) const override { return model_.stored_coefficients(phi); }
  Vec standardised_coefficients(const Vec& phi) const override {
    Vec out = Vec::Zero(model_.features() + 1);
    out.head(phi.size()) = phi;
    return out;
  }
  void obey(const bilevel::StopToken* stop) override { model_.obey(stop); }
  Index parameters() const override { return model_.initial_phi().size(); }
  RowLosses& training() override { return model_.training(); }
  RowLosses& validation() override { return model_.validation(); }

 private:
  Lasso model_;
  const Prepared& prepared_;
  CoordinateDescent inner_;
};

}  // namespace

std::unique_ptr<DataLoss> make_loss(const Prepared& p, std::vector<RowRange> ranges) {
  if (p.model == Model::softmax)
    return bilevel::problems::make_softmax_loss(p.outputs, p.samples, std::move(ranges));
  return bilevel::problems::make_scalar_loss(p.model.loss, p.samples, std::move(ranges),
                                             p.loss_parameter / p.target_scale);
}

std::unique_ptr<RowLosses> make_row_losses(const Prepared& p, std::vector<RowRange> ranges) {
  if (!p.network()) return make_loss(p, std::move(ranges));
  return bilevel::problems::make_perceptron_loss(p.shape(), p.model.loss, p.samples, std::move(ranges));
}

std::unique_ptr<PenalisedModel> make_linear(const Prepared& p, const Split& part) {
  return std::make_unique<PenalisedModel>(make_loss(p, part.training), make_loss(p, part.validation),
                                          part.standardisation, p.penalties, p.intercept);
}

std::unique_ptr<Perceptron> make_perceptron(const Prepared& p, const Split& part) {
  return std::make_unique<Perceptron>(p.shape(), p.model.loss, p.samples, part.training, part.validation,
                                      part.standardisation, p.penalties, p.intercept, p.start_seed);
}

std::unique_ptr<FoldModel> make_fold_model(const Prepared& p, const Split& part) {
  if (p.model == Model::lasso || p.model == Model::elastic_net) return std::make_unique<LassoFold>(p, part);
  if (p.network()) return std::make_unique<SmoothFold<Perceptron>>(make_perceptron(p, part));
  return std::make_unique<SmoothFold<PenalisedModel>>(make_linear(p, part));
}

}  // namespace bilevel::models
