#include <bilevel/problems/perceptron.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <utility>

#include <bilevel/outcome/violations.hpp>
#include <bilevel/problem/gamma.hpp>

#include "problems/perceptron_loss.hpp"
#include "problems/perceptron_units.hpp"

namespace bilevel::problems {

using Vec = Eigen::VectorXd;

namespace {

constexpr std::array<std::pair<Activation, std::string_view>, 2> activations{
    {{Activation::tanh, "tanh"}, {Activation::softplus, "softplus"}}};

/// Units are chosen by a curvature of this size where a weight is multiplied with one.
constexpr double typical_curvature = 0.1;

}  // namespace

std::string_view name(Activation activation) {
  return activations[static_cast<std::size_t>(activation)].second;
}

Activation activation_named(std::string_view text) {
  for (const auto& [value, name] : activations)
    if (name == text) return value;
  throw InvalidInput(fmt::format("there is no activation '{}'; there are: tanh, softplus", text));
}

Index PerceptronShape::place(Index layer) const {
  Index sum = 0;
  for (Index l = 0; l < layer; ++l) sum += (inputs(l) + 1) * units(l);
  return sum;
}

Eigen::MatrixXd perceptron_margins(const PerceptronShape& shape, const Vec& parameters, Eigen::MatrixXd z) {
  for (Index l = 1; l < shape.layers(); ++l) {
    if (shape.activation == Activation::tanh)
      z = z.array().tanh().matrix().eval();
    else
      z = (z.array().max(0.0) + (-z.array().abs()).exp().log1p()).matrix().eval();
    const Eigen::Map<const PerceptronLoss::Rows> weights(parameters.data() + shape.place(l),
                                                         shape.inputs(l) + 1, shape.units(l));
    Eigen::MatrixXd next = z * weights.topRows(shape.inputs(l));
    next.rowwise() += weights.bottomRows(1).row(0);
    z = std::move(next);
  }
  return z;
}

/// J = Tᵀ(H_training + β·H_validation + diag(λ))T, χ = Tᵀ(λ∘φ), each element in the column of its θ.
struct PerceptronCurvature final : Curvature<Vec> {
  explicit PerceptronCurvature(Perceptron& owner) : model(owner), training(owner.training_->make_trace()) {}

  void times(const Vec& v, Vec& out) override {
    Perceptron& m = model;
    m.phi_ = v;
    m.units_->to_true(m.phi_);
    m.to_stored(m.phi_, m.u_);
    m.training_->times(training, m.u_, m.g_);
    if (beta != 0) {
      m.validation_->times(validation, m.u_, m.h_);
      m.g_ += beta * m.h_;
    }
    m.pull_back_stored(m.g_, out);
    out.array() += lambda.array() * m.phi_.array();
    m.units_->pull_back(out);
  }
  void cross_times(const Vec& v, Vec& out) override {
    moved = v;
    model.units_->to_true(moved);
    out.setZero();
    for (Index k = 0; k < model.penalised_; ++k) model.penalties_.add(k, cross[k] * moved[k], out);
  }
  void cross_apply(const Vec& u, Vec& out) override {
    out.setZero();
    for (Index k = 0; k < model.penalised_; ++k) out[k] = cross[k] * model.penalties_.along(k, u);
    model.units_->pull_back(out);
  }
  double cross_norm() override {
    return model.cross_norm(lambda, cross) * (1 + gamma(static_cast<double>(cross.size()) + 16));
  }

  Perceptron& model;
  PerceptronLoss::Trace training, validation;
  Vec lambda, cross, moved;
  double beta = 0;
};

Perceptron::Perceptron(PerceptronShape shape, kernels::Loss loss, Samples samples,
                       std::vector<RowRange> training, std::vector<RowRange> validation,
                       Standardisation standardisation, PenaltyMap penalties, bool intercept,
                       std::uint64_t seed)
    : shape_(std::move(shape)),
      training_(std::make_unique<PerceptronLoss>(shape_, loss, samples, std::move(training))),
      validation_(std::make_unique<PerceptronLoss>(shape_, loss, std::move(samples), std::move(validation))),
      standardisation_(std::move(standardisation)),
      penalties_(std::move(penalties)),
      penalised_(shape_.penalised()),
      size_(penalised_ + (!intercept            ? 0
                          : shape_.outputs == 1 ? 1
                                                : shape_.outputs - 1)) {
  if (standardisation_.shift.size() != shape_.features ||
      standardisation_.inverse_scale.size() != shape_.features)
    throw InvalidInput("perceptron: the standardisation does not fit the features");
  penalties_.require_fits(penalised_, "perceptron");
  const Vec features = measure(*training_, standardisation_).mean_square;
  mean_square_ = Vec::Ones(size_);
  for (Index j = 0; j < shape_.features; ++j)
    mean_square_.segment(j * shape_.units(0), shape_.units(0)).setConstant(features[j]);
  // What enters a unit has variance one, so that no unit is saturated.
  start_ = Vec::Zero(size_);
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  const double total = features.head(shape_.features).sum();
  for (Index l = 0; l < shape_.layers(); ++l) {
    const double scale =
        1 / std::sqrt(l == 0 ? (total > 0 ? total : 1) : static_cast<double>(shape_.inputs(l)));
    for (Index k = 0; k < shape_.inputs(l) * shape_.units(l); ++k)
      start_[shape_.place(l) + k] = scale * normal(engine);
  }
  u_ = g_ = h_ = Vec::Zero(shape_.size());
  lambda_ = phi_ = Vec::Zero(size_);
  units_ = std::make_unique<PerceptronUnits>(shape_, size_ - penalised_);
  adopt_units(initial_theta());
}

Perceptron::~Perceptron() = default;

RowLosses& Perceptron::training() {
  return *training_;
}
RowLosses& Perceptron::validation() {
  return *validation_;
}

Vec Perceptron::initial_theta() const {
  Vec theta = Vec::Constant(penalties_.thetas(), -2.0);
  theta.tail(penalties_.thetas() - penalties_.count).setZero();
  return theta;
}

void Perceptron::set_penalty_map(PenaltyMap penalties) {
  penalties.require_fits(penalised_, "perceptron");
  penalties_ = std::move(penalties);
  adopt_units(initial_theta());
}

Vec Perceptron::initial_phi() const {
  Vec own = start_;
  to_own(own);
  return own;
}

const Vec& Perceptron::units() const {
  return units_->elements();
}
void Perceptron::to_own(Vec& x) const {
  units_->to_own(x);
}
void Perceptron::to_true(Vec& x) const {
  units_->to_true(x);
}

/// 1/√(λ + typical curvature)
void Perceptron::adopt_units(const Vec& theta) {
  set_penalties(theta);
  Vec units(size_);
  for (Index k = 0; k < size_; ++k)
    units[k] = std::exp2(std::round(-0.5 * std::log2(lambda_[k] + typical_curvature * mean_square_[k])));
  units_->adopt(units);
}

void Perceptron::adopt_units(const Vec& theta, const Vec& phi) {
  to_stored(phi, u_);
  std::vector<LayerMoments> moments = training_->moments(u_);
  moments[0].standardise(standardisation_.shift, standardisation_.inverse_scale);
  set_penalties(theta);
  units_->adopt(lambda_, moments);
}

void Perceptron::set_penalties(const Vec& theta) {
  for (Index k = 0; k < penalised_; ++k) lambda_[k] = std::exp(penalties_.log_lambda(k, theta));
}

void Perceptron::to_stored(const Vec& phi, Vec& u) const {
  u.head(size_) = phi;
  u.tail(u.size() - size_).setZero();
  const Index units = shape_.units(0);
  auto bias = u.segment(shape_.features * units, units);
  for (Index j = 0; j < shape_.features; ++j) {
    auto own = u.segment(j * units, units);
    own *= standardisation_.inverse_scale[j];
    bias -= standardisation_.shift[j] * own;
  }
}

/// By φ what is by the stored parameters.
void Perceptron::pull_back_stored(const Vec& g, Vec& out) const {
  out = g.head(size_);
  const Index units = shape_.units(0);
  const auto bias = g.segment(shape_.features * units, units);
  for (Index j = 0; j < shape_.features; ++j)
    out.segment(j * units, units) =
        standardisation_.inverse_scale[j] * (g.segment(j * units, units) - standardisation_.shift[j] * bias);
}

void Perceptron::pull_back(const Vec& g, Vec& out) const {
  pull_back_stored(g, out);
  units_->pull_back(out);
}

double Perceptron::inner(const Vec& psi, const Vec& theta, Wanted<Vec> wanted) {
  set_penalties(theta);
  phi_ = psi;
  units_->to_true(phi_);
  to_stored(phi_, u_);
  double value = training_->value(u_, wanted.phi ? &g_ : nullptr);
  value += 0.5 * (lambda_.array() * phi_.array().square()).sum();
  if (wanted.phi) {
    pull_back_stored(g_, *wanted.phi);
    wanted.phi->array() += lambda_.array() * phi_.array();
    units_->pull_back(*wanted.phi);
  }
  if (wanted.theta) {
    wanted.theta->setZero();
    for (Index k = 0; k < penalised_; ++k)
      penalties_.add(k, 0.5 * lambda_[k] * phi_[k] * phi_[k], *wanted.theta);
  }
  return value;
}

double Perceptron::outer(const Vec& psi, const Vec&, Wanted<Vec> wanted) {
  phi_ = psi;
  units_->to_true(phi_);
  to_stored(phi_, u_);
  const double value = validation_->value(u_, wanted.phi ? &g_ : nullptr);
  if (wanted.phi) pull_back(g_, *wanted.phi);
  if (wanted.theta) wanted.theta->setZero();
  return value;
}

void Perceptron::validation_gradient(const Vec& psi, const Vec& shares, Vec& out) {
  phi_ = psi;
  units_->to_true(phi_);
  to_stored(phi_, u_);
  validation_->mixed_gradient(u_, shares, g_);
  pull_back(g_, out);
}

void Perceptron::linearise(const Vec& psi, const Vec& theta, double beta,
                           std::unique_ptr<Curvature<Vec>>& reuse) {
  if (auto* before = static_cast<PerceptronCurvature*>(reuse.get()); !before || &before->model != this)
    reuse = std::make_unique<PerceptronCurvature>(*this);
  auto& c = static_cast<PerceptronCurvature&>(*reuse);
  set_penalties(theta);
  phi_ = psi;
  units_->to_true(phi_);
  c.lambda = lambda_;
  c.cross = lambda_.cwiseProduct(phi_);
  c.beta = beta;
  to_stored(phi_, u_);
  training_->linearise(u_, c.training);
  if (beta == 0) return;
  if (c.validation.deltas.empty()) c.validation = validation_->make_trace();
  validation_->linearise(u_, c.validation);
}

/// An upper bound of ‖Tᵀ·cross·∂(log λ)/∂θ‖, cross = λ∘φ; of factors by ‖Tᵀ√Λ‖·‖√Λ·φ·∂(log λ)/∂θ‖.
double Perceptron::cross_norm(const Vec& lambda, const Vec& cross) const {
  PenaltyNorm norm(penalties_);
  const bool each = units_->elementwise();
  for (Index k = 0; k < penalised_; ++k)
    norm.add(k, each ? std::pow(cross[k] * units_->elements()[k], 2) : cross[k] * cross[k] / lambda[k]);
  return std::sqrt(norm.square() * (each ? 1 : units_->largest(lambda)));
}

/// Those of the penalties, which are quadratic: of the network nothing holds that would be of use.
Constants Perceptron::constants(const Vec& theta, const Vec& center, double radius) {
  set_penalties(theta);
  const double largest = units_->largest(lambda_) * (1 + 1e-12), spread = penalties_.spread();
  Constants c;
  c.cross_lipschitz = largest * spread;
  c.outer_cross_lipschitz = 0;
  if (!std::isfinite(radius)) return c;
  phi_ = center;
  units_->to_true(phi_);
  c.cross_norm = (cross_norm(lambda_, lambda_.cwiseProduct(phi_)) + largest * spread * radius) *
                 (1 + gamma(static_cast<double>(size_) + 32));
  return c;
}

Vec Perceptron::stored_coefficients(const Vec& phi) const {
  Vec u(shape_.size());
  to_stored(phi, u);
  return u;
}

Vec Perceptron::standardised_coefficients(const Vec& phi) const {
  Vec out = Vec::Zero(shape_.size());
  out.head(size_) = phi;
  return out;
}

}  // namespace bilevel::problems
