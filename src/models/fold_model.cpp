#include "fold_model.hpp"

#include <utility>

#include <bilevel/gradient/automatic.hpp>
#include <bilevel/gradient/in_units.hpp>
#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/problems/penalised_model.hpp>

#include "coordinate_descent.hpp"

namespace bilevel::models {
namespace {

using bilevel::problems::DataLoss;
using bilevel::problems::Lasso;
using bilevel::problems::PenalisedModel;
using bilevel::problems::PenaltyMap;

/// A fit that was not begun, since everything is to end: others of huge models still wait behind it.
FoldModel::Settled not_begun(bilevel::Status why, Vec start) {
  FoldModel::Settled settled;
  settled.phi = std::move(start);
  settled.status = why;
  settled.message = sentence(why);
  return settled;
}

/// Newton with a Cholesky factor and a direct adjoint where the Hessian is small enough to be formed;
/// trust-region Newton and conjugate gradients beyond.
class SmoothFold final : public FoldModel {
 public:
  SmoothFold(const Prepared& prepared, const Split& part, bool intercept)
      : model_(make_loss(prepared, part.training), make_loss(prepared, part.validation), part.standardisation,
               prepared.penalties, intercept),
        inner_name_(model_.forms_hessian() ? "newton" : "trust-region"),
        adjoint_name_(model_.forms_hessian() ? "direct" : "cg-jacobi"),
        inner_(model_.forms_hessian() ? std::make_unique<bilevel::Minimiser<Vec>>(
                                            model_, std::make_unique<bilevel::Newton<Vec>>(
                                                        bilevel::NewtonOptions{.keep_factor = true}))
                                      : bilevel::make_inner_solver<Vec>(inner_name_, model_)) {}

  void use(PenaltyMap penalties) override { model_.set_penalty_map(std::move(penalties)); }

  Settled settle(const Vec& theta, const Vec* warm, double tolerance) override {
    Vec start = model_.initial_phi();
    const bool warmed = warm && warm->size() == start.size();
    if (const auto why = bilevel::stop_wanted(model_.stop_token()))
      return not_begun(*why, warmed ? *warm : start);  // which is zero in any units
    model_.adopt_units(theta);
    inner_->set_tolerance(tolerance);
    if (warmed) start = warm->cwiseQuotient(model_.units());
    bilevel::Solution<Vec> solution = inner_->solve(theta, 0, start);
    Settled settled;
    if (!cut_short(solution.status)) settled.outer_value = model_.outer(solution.phi, theta, {});
    settled.status = solution.status;
    settled.message = std::move(solution.message);
    settled.phi = solution.phi.cwiseProduct(model_.units());
    return settled;
  }

  std::unique_ptr<bilevel::Estimator<Vec>> estimator() override {
    auto own = bilevel::make_estimator<Vec>("implicit-" + adjoint_name_, model_, *inner_, {});
    return std::make_unique<bilevel::InUnits<Vec>>(std::move(own), model_);
  }
  std::unique_ptr<RowHypergradients> row_hypergradients(const Vec& theta, const Vec& phi) override {
    model_.adopt_units(theta);
    return std::make_unique<RowHypergradients>(
        model_, model_.validation(), phi.cwiseQuotient(model_.units()), theta, model_.stored_coefficients(phi),
        [this](const Vec& stored_gradient) {
          Vec own(model_.units().size());
          model_.pull_back(stored_gradient.data(), own.data());
          return own;
        },
        adjoint_name_);
  }
  std::string solvers() const override { return fmt::format("{}, adjoint {}", inner_name_, adjoint_name_); }

  Vec stored_coefficients(const Vec& phi) const override { return model_.stored_coefficients(phi); }
  Vec standardised_coefficients(const Vec& phi) const override {
    return model_.standardised_coefficients(phi);
  }
  void obey(const bilevel::StopToken* stop) override { model_.obey(stop); }
  Index parameters() const override { return model_.initial_phi().size(); }
  DataLoss& training() override { return model_.training(); }
  DataLoss& validation() override { return model_.validation(); }

 private:
  PenalisedModel model_;
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
        model_, model_.validation(), phi, theta, model_.stored_coefficients(phi),
        [this](const Vec& stored_gradient) {
          Vec own(model_.initial_phi().size());
          model_.pull_back(stored_gradient, own);
          return own;
        },
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
  DataLoss& training() override { return model_.training(); }
  DataLoss& validation() override { return model_.validation(); }

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

std::unique_ptr<FoldModel> make_fold_model(const Prepared& p, const Split& part) {
  if (p.model == Model::lasso || p.model == Model::elastic_net) return std::make_unique<LassoFold>(p, part);
  return std::make_unique<SmoothFold>(p, part, p.intercept);
}

}  // namespace bilevel::models
