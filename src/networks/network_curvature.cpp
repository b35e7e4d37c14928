#include "network_curvature.hpp"

#include <algorithm>
#include <cmath>

#include <bilevel/gradient/impl/spectrum.hpp>

#include "threads/pool.hpp"

namespace bilevel::networks {

void NetworkCurvature::place(const Vec& phi, const Vec& theta, double beta) {
  energy_.place(theta, phi);
  beta_ = beta;
  factored_ = false;
  if (beta == 0 || a_.read_out == ReadOut::squared) return;
  const Eigen::MatrixXd& u = energy_.state(a_.depth() - 1);
  probabilities_.resize(u.rows(), u.cols());
  for (Index n = 0; n < u.cols(); ++n) probabilities_.col(n) = softmax<double>(u.col(n));
}

void NetworkCurvature::times(const Vec& v, Vec& out) {
  energy_.times(v, out);
  if (beta_ != 0) {
    const Index outputs = a_.outputs(), size = outputs * energy_.batch();
    const Eigen::Map<const Eigen::MatrixXd> direction(v.data() + v.size() - size, outputs, energy_.batch());
    Eigen::Map<Eigen::MatrixXd> product(out.data() + v.size() - size, outputs, energy_.batch());
    if (a_.read_out == ReadOut::squared) {
      product += beta_ * direction;
    } else {
      for (Index n = 0; n < energy_.batch(); ++n) {
        const auto p = probabilities_.col(n);
        product.col(n) += beta_ * (p.cwiseProduct(direction.col(n)) - p * p.dot(direction.col(n)));
      }
    }
  }
  out /= static_cast<double>(energy_.batch());
}

void NetworkCurvature::cross_times(const Vec& v, Vec& out) {
  energy_.cross_times(v, derivative_);
  derivative_.pull_back(a_, out);
  out /= static_cast<double>(energy_.batch());
}

void NetworkCurvature::cross_apply(const Vec& u, Vec& out) {
  derivative_.set(a_, u, true);
  energy_.cross_apply(derivative_, out);
  out /= static_cast<double>(energy_.batch());
}

bool NetworkCurvature::dense(Eigen::MatrixXd& out) {
  constexpr Index limit = 3000;
  if (a_.states() * energy_.batch() > limit) return false;
  assemble<double>(a_, samples_, energy_, beta_, out);
  return true;
}

bool NetworkCurvature::diagonal(Vec& out) {
  energy_.diagonal(out);
  if (beta_ != 0) {
    const Index size = a_.outputs() * energy_.batch();
    if (a_.read_out == ReadOut::squared)
      out.tail(size).array() += beta_;
    else
      out.tail(size) += beta_ * (probabilities_.array() * (1 - probabilities_.array())).matrix().reshaped();
  }
  out /= static_cast<double>(energy_.batch());
  return true;
}

void NetworkCurvature::factor() {
  if (factored_) return;
  factored_ = true;
  const auto squares = squares_of<double>(a_, energy_.couplings());
  const Index batch = energy_.batch();
  factors_.resize(static_cast<std::size_t>(batch));
  pool::for_each(factors_.size(), factors_.size(), [&](std::size_t piece) {
    const auto n = static_cast<Index>(piece);
    Eigen::MatrixXd h(a_.states(), a_.states());
    energy_.sample_hessian(n, squares, h);
    add_cost_hessian<double>(a_.read_out, energy_.state(a_.depth() - 1).col(n), beta_, h);
    factors_[piece].compute(h);
  });
}

bool NetworkCurvature::precondition(const Vec& r, Vec& out) {
  if (a_.states() > NetworkProblem::factor_limit) return false;
  factor();
  const Index batch = energy_.batch();
  packed_.resize(a_.states());
  for (Index n = 0; n < batch; ++n) {
    const auto each = [&](auto&& act) {
      for (Index k = 1, at = 0, offset = 0; k <= a_.depth(); ++k) {
        act(packed_.segment(at, a_.width(k)), offset + n * a_.width(k));
        at += a_.width(k);
        offset += a_.width(k) * batch;
      }
    };
    each([&](auto part, Index from) { part = r.segment(from, part.size()); });
    const auto& llt = factors_[static_cast<std::size_t>(n)];
    if (llt.info() == Eigen::Success) llt.solveInPlace(packed_);
    packed_ *= static_cast<double>(batch);
    each([&](auto part, Index to) { out.segment(to, part.size()) = part; });
  }
  return true;
}

/// Frobenius: of χ = ∂(W, b, D)-blocks one after the other. A change of W_k by one entry ij moves the force
/// on unit i of layer k by slope·s_{k−1,j} and that on unit j below by slope·s_{k,i}.
double NetworkCurvature::cross_norm() {
  if (a_.resistive() || a_.energy == Energy::predictive_coding) return unknown;
  double sum = 0;
  for (Index n = 0; n < energy_.batch(); ++n)
    for (Index i = 0; i < a_.depth(); ++i) {
      const double post = energy_.slope(i).col(n).cwiseProduct(energy_.free(i).col(n)).squaredNorm();
      sum += post * (1 + energy_.activity(i - 1).col(n).squaredNorm());
      if (i > 0)
        sum += energy_.slope(i - 1).col(n).cwiseProduct(energy_.free(i - 1).col(n)).squaredNorm() *
               energy_.activity(i).col(n).squaredNorm();
    }
  return std::sqrt(sum) / static_cast<double>(energy_.batch());
}

double NetworkCurvature::least_eigenvalue() {
  constexpr Index limit = 1200;
  if (a_.states() > limit) return unknown;
  const auto squares = squares_of<double>(a_, energy_.couplings());
  double least = everywhere;
  Eigen::MatrixXd h(a_.states(), a_.states());
  for (Index n = 0; n < energy_.batch(); ++n) {
    if (stop_wanted(stop_)) return unknown;
    energy_.sample_hessian(n, squares, h);
    add_cost_hessian<double>(a_.read_out, energy_.state(a_.depth() - 1).col(n), beta_, h);
    // Each entry is a handful of operations on products over a layer's inputs.
    const double error =
        0x1p-50 * static_cast<double>(*std::max_element(a_.layers.begin(), a_.layers.end())) * h.norm();
    const double smallest = factored_spectrum(h, error).smallest;
    if (std::isnan(smallest)) return unknown;
    least = std::min(least, smallest);
  }
  return least / static_cast<double>(energy_.batch());
}

}  // namespace bilevel::networks
