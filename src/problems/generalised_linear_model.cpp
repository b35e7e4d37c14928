#include <bilevel/problems/generalised_linear_model.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include <Eigen/Eigenvalues>

#include <bilevel/problem/gamma.hpp>
#include <bilevel/problems/data_loss.hpp>

namespace bilevel::problems {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

namespace {

constexpr double unit = 0x1p-53;

GeneralisedLinearModel::LossBounds bounds_of(kernels::Loss loss) {
  const LossShape shape = kind_of(loss).shape(1, {});
  return {loss == kernels::Loss::squared ? 1.0 : 0.0, shape.largest_curvature, shape.curvature_lipschitz,
          shape.largest_slope};
}

void require_part(std::string_view name, std::string_view part, const DesignMatrix& x, const Vec& y) {
  if (x.rows() == 0) throw InvalidInput(fmt::format("{}: the {} features have no rows", name, part));
  if (x.columns() == 0) throw InvalidInput(fmt::format("{}: the {} features have no columns", name, part));
  if (y.size() != x.rows())
    throw InvalidInput(
        fmt::format("{}: {} rows of {} features and {} labels", name, x.rows(), part, y.size()));
  if (!x.finite())
    for (Index i = 0; i < x.rows(); ++i)
      for (Index j = 0; j < x.columns(); ++j)
        if (!std::isfinite(x.matrix()(i, j)))
          throw InvalidInput(fmt::format("{}: the {} features hold {} in row {}, column {} (counted from 0)",
                                         name, part, x.matrix()(i, j), i, j));
  for (Index i = 0; i < y.size(); ++i)
    if (!std::isfinite(y[i]))
      throw InvalidInput(
          fmt::format("{}: the {} labels hold {} in row {} (counted from 0)", name, part, y[i], i));
}

}  // namespace

/// J = XᵀDX/n + β·X_vᵀD_vX_v/n_v + diag(exp θ), χ = exp(θ)∘φ on the diagonal or as one column.
struct LinearModelCurvature final : Curvature<Vec> {
  explicit LinearModelCurvature(GeneralisedLinearModel& owner) : model(owner) {}

  bool constant() const { return model.loss_ == kernels::Loss::squared; }
  const double* weights_of(const Vec& each) const { return constant() ? nullptr : each.data(); }

  void times(const Vec& v, Vec& out) override {
    if (formed) {
      out.noalias() = matrix * v;
      return;
    }
    auto& t = model.training_;
    kernels::product(t.x.view(), weights_of(weights), v.data(), out.data(), t.workspace);
    out.array() = t.inverse_rows * out.array() + penalties.array() * v.array();
    if (beta != 0) {
      auto& o = model.validation_;
      kernels::product(o.x.view(), weights_of(validation_weights), v.data(), model.scratch_.data(),
                       o.workspace);
      out += (beta * o.inverse_rows) * model.scratch_;
    }
  }
  void cross_times(const Vec& v, Vec& out) override {
    if (model.penalty_ == Penalty::global)
      out[0] = cross.dot(v);
    else
      out = cross.cwiseProduct(v);
  }
  void cross_apply(const Vec& u, Vec& out) override {
    if (model.penalty_ == Penalty::global)
      out = u[0] * cross;
    else
      out = cross.cwiseProduct(u);
  }
  bool dense(Mat& out) override {
    form();
    out = matrix;
    return true;
  }
  bool diagonal(Vec& out) override {
    if (formed) {
      out = matrix.diagonal();
      return true;
    }
    auto& t = model.training_;
    kernels::gram_diagonal(t.x.view(), weights_of(weights), out.data(), t.workspace);
    out = t.inverse_rows * out + penalties;
    if (beta != 0) {
      auto& o = model.validation_;
      kernels::gram_diagonal(o.x.view(), weights_of(validation_weights), model.scratch_.data(), o.workspace);
      out += (beta * o.inverse_rows) * model.scratch_;
    }
    return true;
  }
  double cross_norm() override {
    const double up = 1 + gamma(static_cast<double>(cross.size()) + 8);
    return up * (model.penalty_ == Penalty::global ? cross.norm() : cross.lpNorm<Eigen::Infinity>());
  }

  /// From then on a product costs d² instead of n·d.
  void form() {
    if (formed) return;
    auto& t = model.training_;
    matrix.resize(t.x.columns(), t.x.columns());
    if (t.gram.size() > 0) {
      matrix = t.gram;
    } else {
      kernels::gram(t.x.view(), weights_of(weights), matrix.data(), t.workspace);
      matrix *= t.inverse_rows;
    }
    if (beta != 0) {
      auto& o = model.validation_;
      if (o.gram.size() > 0) {
        matrix += beta * o.gram;
      } else {
        validation_matrix.resize(o.x.columns(), o.x.columns());
        kernels::gram(o.x.view(), weights_of(validation_weights), validation_matrix.data(), o.workspace);
        matrix += (beta * o.inverse_rows) * validation_matrix;
      }
    }
    matrix.diagonal() += penalties;
    formed = true;
  }

  GeneralisedLinearModel& model;
  Vec weights, validation_weights, penalties, cross;
  double beta = 0;
  Mat matrix, validation_matrix;
  bool formed = false;
};

Violations LinearModelOptions::validate() const {
  Violations v("linear_model");
  v.at_least("rows", rows, 1)
      .at_least("validation_rows", validation_rows, 1)
      .at_least("features", features, 1);
  v.at_least("strong", strong, 0).at_least("group", group, 1);
  v.require((strong - 1) * group < features, "strong", strong, "times group must fit into features");
  v.require(correlation >= 0 && correlation < 1, "correlation", correlation,
            "must be at least 0 and below 1");
  v.not_negative("noise", noise);
  return v;
}

GeneralisedLinearModel::Part::Part(DesignMatrix features, Vec labels)
    : x(std::move(features)),
      y(std::move(labels)),
      workspace(x.view()),
      inverse_rows(1 / static_cast<double>(std::max<Index>(x.rows(), 1))) {
  if (y.size() != x.rows()) return;  // refused by the model, with a message
  for (Index i = 0; i < x.rows(); ++i) label_moment += std::abs(y[i]) * x.row(i).norm();
  label_moment *= inverse_rows * (1 + gamma(static_cast<double>(x.rows() + x.columns() + 8)));
}

Mat GeneralisedLinearModel::Part::compute_gram() {
  Mat g(x.columns(), x.columns());
  kernels::gram(x.view(), nullptr, g.data(), workspace);
  return inverse_rows * g;
}

void GeneralisedLinearModel::Part::keep_gram() {
  gram = compute_gram();
  correlation.noalias() = inverse_rows * (x.matrix().transpose() * y);
}

void GeneralisedLinearModel::Part::find_eigenvalues() {
  const double d = static_cast<double>(x.columns());
  if (x.columns() <= small_enough_for_gram) {
    const Vec eigenvalues =
        Eigen::SelfAdjointEigenSolver<Mat>(gram.size() > 0 ? gram : compute_gram(), Eigen::EigenvaluesOnly)
            .eigenvalues();
    // Backward error of the eigenvalue solver, and of the sums: ‖|X|ᵀ|X|‖/n ≤ mean ‖x_i‖².
    const double slack = 10 * d * unit * eigenvalues[x.columns() - 1] +
                         gamma(workspace.chunking().gram_depth() + 2) * x.mean_square();
    largest_ = eigenvalues[x.columns() - 1] + slack;
    least_ = std::max(0.0, eigenvalues[0] - slack);
    return;
  }
  // ‖X‖² is at most the sum of the squares, and at most the largest column sum times the largest row sum.
  Vec columns = Vec::Zero(x.columns());
  double widest = 0;
  for (Index i = 0; i < x.rows(); ++i) {
    columns += x.row(i).cwiseAbs();
    widest = std::max(widest, x.row(i).lpNorm<1>());
  }
  const double up = 1 + gamma(static_cast<double>(x.rows() + x.columns() + 8));
  largest_ = std::min(x.mean_square(), columns.maxCoeff() * inverse_rows * widest * up);
  least_ = 0;
}

double GeneralisedLinearModel::Part::least_eigenvalue() {
  if (std::isnan(least_)) find_eigenvalues();
  return least_;
}

double GeneralisedLinearModel::Part::largest_eigenvalue() {
  if (std::isnan(largest_)) find_eigenvalues();
  return largest_;
}

GeneralisedLinearModel::GeneralisedLinearModel(std::string_view name, kernels::Loss loss, Data data,
                                               Penalty penalty)
    : training_(std::move(data.x), std::move(data.y)),
      validation_(std::move(data.validation_x), std::move(data.validation_y)),
      loss_(loss),
      bounds_(bounds_of(loss)),
      penalty_(penalty),
      planted_(std::move(data.planted)) {
  require_part(name, "training", training_.x, training_.y);
  require_part(name, "validation", validation_.x, validation_.y);
  const Index d = training_.x.columns();
  if (validation_.x.columns() != d)
    throw InvalidInput(fmt::format("{}: {} columns of training features and {} of validation features", name,
                                   d, validation_.x.columns()));
  penalties_ = scratch_ = bend_point_ = Vec::Zero(d);
  if (loss_ == kernels::Loss::squared) {
    if (d <= small_enough_for_gram) {
      training_.keep_gram();
      validation_.keep_gram();
    }
  } else {
    bend_ = Vec::Zero(training_.x.rows());
  }
}

GeneralisedLinearModel::Data GeneralisedLinearModel::draw(const LinearModelOptions& options,
                                                          std::uint64_t& noise_seed) {
  options.validate().throw_if_any();
  std::mt19937_64 engine(options.seed);
  std::normal_distribution<double> normal;
  const double common = std::sqrt(options.correlation), own = std::sqrt(1 - options.correlation);
  const auto features = [&](Index rows) {
    DesignMatrix::RowMajor x(rows, options.features);
    for (Index i = 0; i < rows; ++i) {
      double shared = 0;
      for (Index j = 0; j < options.features; ++j) {
        if (j % options.group == 0) shared = normal(engine);
        x(i, j) = common * shared + own * normal(engine);
      }
    }
    return x;
  };
  Vec planted = Vec::Zero(options.features);
  for (Index k = 0; k < options.strong; ++k) planted[k * options.group] = k % 2 == 0 ? 1 : -1;
  const DesignMatrix::RowMajor x = features(options.rows), validation = features(options.validation_rows);
  noise_seed = engine();
  return {x, x * planted, validation, validation * planted, planted};
}

Vec GeneralisedLinearModel::initial_theta() const {
  // exp(−2) ≈ 0.14 on the scale of a mean loss: features of unit variance are held back, not silenced.
  return Vec::Constant(penalty_ == Penalty::global ? 1 : training_.x.columns(), -2.0);
}

void GeneralisedLinearModel::set_penalties(const Vec& theta) {
  for (Index j = 0; j < penalties_.size(); ++j) penalties_[j] = std::exp(penalty_at(theta, j));
}

double GeneralisedLinearModel::inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
  set_penalties(theta);
  // loss″ costs a few operations a row here and a pass over X later, should the caller linearise at φ.
  const bool bend = wanted.phi && loss_ != kernels::Loss::squared;
  double value = training_.inverse_rows *
                 kernels::value_with_gradient(loss_, training_.x.view(), phi.data(), {training_.y.data()},
                                              wanted.phi ? wanted.phi->data() : nullptr,
                                              bend ? bend_.data() : nullptr, training_.workspace);
  if (bend) {
    bend_point_ = phi;
    bend_valid_ = true;
  }
  double penalty = 0;
  for (Index j = 0; j < phi.size(); ++j) penalty += penalties_[j] * phi[j] * phi[j];
  value += 0.5 * penalty;
  if (wanted.phi)
    wanted.phi->array() = training_.inverse_rows * wanted.phi->array() + penalties_.array() * phi.array();
  if (wanted.theta) {
    if (penalty_ == Penalty::global)
      (*wanted.theta)[0] = 0.5 * penalty;
    else
      wanted.theta->array() = 0.5 * penalties_.array() * phi.array().square();
  }
  return value;
}

double GeneralisedLinearModel::outer(const Vec& phi, const Vec&, Wanted<Vec> wanted) {
  const double value =
      kernels::value_with_gradient(loss_, validation_.x.view(), phi.data(), {validation_.y.data()},
                                   wanted.phi ? wanted.phi->data() : nullptr, nullptr, validation_.workspace);
  if (wanted.phi) *wanted.phi *= validation_.inverse_rows;
  if (wanted.theta) wanted.theta->setZero();
  return validation_.inverse_rows * value;
}

void GeneralisedLinearModel::linearise(const Vec& phi, const Vec& theta, double beta,
                                       std::unique_ptr<Curvature<Vec>>& reuse) {
  if (!reuse) reuse = std::make_unique<LinearModelCurvature>(*this);
  auto& c = static_cast<LinearModelCurvature&>(*reuse);
  set_penalties(theta);
  c.penalties = penalties_;
  c.cross = penalties_.cwiseProduct(phi);
  c.beta = beta;
  c.formed = false;
  if (loss_ == kernels::Loss::squared) {
    if (training_.gram.size() > 0) c.form();
    return;
  }
  c.weights.resize(training_.x.rows());
  if (bend_valid_ && bend_point_ == phi) {
    c.weights.swap(bend_);
    bend_valid_ = false;
  } else {
    kernels::curvature(loss_, training_.x.view(), phi.data(), {training_.y.data()}, c.weights.data(),
                       training_.workspace);
  }
  if (beta != 0) {
    c.validation_weights.resize(validation_.x.rows());
    kernels::curvature(loss_, validation_.x.view(), phi.data(), {validation_.y.data()},
                       c.validation_weights.data(), validation_.workspace);
  }
}

Constants GeneralisedLinearModel::constants(const Vec& theta, const Vec& center, double radius) {
  set_penalties(theta);
  const double least = penalties_.minCoeff() * exp_down, largest = penalties_.maxCoeff() * exp_up;
  const double eigenvalue = training_.largest_eigenvalue();
  const double up = 1 + gamma(static_cast<double>(center.size()) + 8);
  Constants c;
  c.mu = bounds_.least_curvature > 0
             ? (bounds_.least_curvature * training_.least_eigenvalue() + least) * exp_down
             : least;
  c.smoothness = (bounds_.largest_curvature * eigenvalue + largest) * exp_up;
  // ‖Σ D_i x_i x_iᵀ‖/n with |D_i| ≤ sup|loss‴|·|x_i·Δφ|: by the largest row, or by the triangle inequality.
  c.hessian_lipschitz = bounds_.curvature_lipschitz *
                        std::min(eigenvalue * training_.x.largest_norm(), training_.x.mean_cube()) * exp_up;
  c.cross_lipschitz = largest;
  if (std::isfinite(radius)) {
    c.cross_norm = penalty_ == Penalty::global
                       ? largest * (center.norm() + radius) * up
                       : (penalties_.array() * (center.array().abs() + radius)).maxCoeff() * up * exp_up;
  }
  c.outer_smoothness = bounds_.largest_curvature * validation_.largest_eigenvalue();
  c.outer_cross_lipschitz = 0;
  if (std::isfinite(bounds_.largest_slope)) {
    c.outer_lipschitz = bounds_.largest_slope * validation_.x.mean_norm();
  } else if (std::isfinite(radius)) {
    // ‖∂φ L_out‖ at the centre, and from there at most L_out·radius more.
    Vec gradient(center.size());
    outer(center, theta, {.phi = &gradient});
    c.outer_lipschitz =
        (gradient.norm() + residual_rounding(validation_, center.norm()) + c.outer_smoothness * radius) * up;
  }
  return c;
}

// Rounding errors, with u = 2⁻⁵³ and γ_k as in Higham. For a row x_i of norm ‖x_i‖:
//   margin   |m̂ − m| ≤ γ_M Σ_j|x_ij||φ_j| ≤ γ_M ‖x_i‖‖φ‖,                       M = margin_depth
//   slope    |ŵ − w| ≤ sup|loss″|·|m̂ − m| + 12u·|w|, because e = exp(−|m|) is within 2 ulp (4u) and the
//            slope is at most four operations away from it; what is flushed to zero is below 1e-307
//   sum      2-norm error ≤ γ_S · 1/n Σ|w_i|‖x_i‖,                                S = sum_depth
// where 1/n Σ|w_i|‖x_i‖ is at most sup|loss′|·mean‖x_i‖, or mean‖x_i‖²·‖φ‖ + mean|y_i|‖x_i‖ for the squared
// loss. Nothing here reads X again. Products of two γ are covered by the factor 1.001 in rounding().
double GeneralisedLinearModel::residual_rounding(const Part& part, double norm_phi) const {
  const kernels::Chunking& chunking = part.workspace.chunking();
  const double slopes = std::isfinite(bounds_.largest_slope)
                            ? bounds_.largest_slope * part.x.mean_norm()
                            : part.x.mean_square() * norm_phi + part.label_moment;
  return gamma(chunking.sum_depth() + 12 + 4) * slopes +
         bounds_.largest_curvature * gamma(chunking.margin_depth()) * part.x.mean_square() * norm_phi +
         1e-307 * part.x.mean_norm();
}

Rounding GeneralisedLinearModel::rounding(const Vec& phi, const Vec& theta, const Vec& pi) {
  set_penalties(theta);
  const kernels::Chunking& chunking = training_.workspace.chunking();
  const double d = static_cast<double>(phi.size());
  const double norm_phi = phi.norm(), norm_pi = pi.norm();
  // The penalty's own term: exp (2u), its product, and the sum with the rest (whose share is in γ_S above).
  const auto penalty_term = [&](const Vec& v) {
    return gamma(6) * (penalties_.array() * v.array()).matrix().norm();
  };
  Rounding r;
  r.residual = 1.001 * (residual_rounding(training_, norm_phi) + penalty_term(phi));

  // XᵀDXπ/n, by products or by the dense matrix, whichever errs more. D is off by sup|loss‴|·|m̂ − m|, and by
  // 12u of itself; then s_i = D_i·(x_i·π) is summed like the slopes, with |s_i| ≤ sup|loss″|·‖x_i‖‖π‖.
  const double by_products = chunking.sum_depth() + chunking.margin_depth();
  const double by_matrix = chunking.gram_depth() + d;
  const double product = bounds_.largest_curvature * gamma(std::max(by_products, by_matrix) + 12 + 6) *
                             training_.x.mean_square() * norm_pi +
                         bounds_.curvature_lipschitz * gamma(chunking.margin_depth()) *
                             training_.x.mean_cube() * norm_phi * norm_pi;
  // The dense route adds the penalty to the diagonal and multiplies then, so its share grows with d.
  const double penalty_product = gamma(d + 8) * (penalties_.array() * pi.array()).matrix().norm();
  r.adjoint = 1.001 * (residual_rounding(validation_, norm_phi) + product + penalty_product);

  // The matrix itself: each element of XᵀDX/n a sum of depth gram_depth, D as above, the penalty on the
  // diagonal.
  r.curvature =
      1.001 *
      (bounds_.largest_curvature * gamma(chunking.gram_depth() + 12 + 6) * training_.x.mean_square() +
       bounds_.curvature_lipschitz * gamma(chunking.margin_depth()) * training_.x.mean_cube() * norm_phi +
       gamma(8) * penalties_.maxCoeff());

  // ½ Σ_j exp(θ_j)φ_j²: exp within 2 ulp, two products, and the sum where there is one.
  const auto squares = (0.5 * penalties_.array() * phi.array().square());
  r.inner_theta = 1.001 * (penalty_ == Penalty::global ? gamma(d + 6) * squares.sum()
                                                       : gamma(6) * squares.matrix().norm());

  const auto terms = (penalties_.array() * phi.array() * pi.array()).abs();
  r.gradient =
      1.001 * (penalty_ == Penalty::global ? gamma(d + 6) * terms.sum() : gamma(6) * terms.matrix().norm());
  return r;
}

}  // namespace bilevel::problems
