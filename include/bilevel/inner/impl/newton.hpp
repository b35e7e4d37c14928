#pragma once

#include <bilevel/inner/impl/backtracking.hpp>
#include <bilevel/inner/newton.hpp>

namespace bilevel {

template <Vector V>
Newton<V>::Newton(NewtonOptions options) : options_(options) {
  options_.validate().throw_if_any();
}

template <Vector V>
void Newton<V>::check(Nudged<V>& nudged, const State<V>&) {
  if (!nudged.capabilities().curvature)
    throw InvalidInput(
        "newton: the problem offers first derivatives only; use lbfgs, or ask for "
        "with_difference_products()");
  shifted_ = 0;
  largest_shift_ = 0;
}

template <Vector V>
std::optional<Stop> Newton<V>::begin(Nudged<V>& nudged, State<V>& state) {
  const Index n = Space<V>::size(state.phi);
  if (!search_) {
    search_.emplace(state.phi);
    direction_ = Space<V>::zeros_like(state.phi);
    column_ = Space<V>::zeros_like(state.phi);
    if (!nudged.capabilities().sparse) hessian_.resize(n, n);
    host_.resize(n);
    scale_.resize(n);
  }
  serves_ = false;
  return {};
}

template <Vector V>
std::optional<Stop> Newton<V>::form_hessian(Nudged<V>& nudged, const State<V>& state) {
  Curvature<V>& curvature = nudged.curvature(state.phi);
  const auto not_finite = [&] {
    return Stop{Status::not_finite,
                fmt::format("the Hessian product is not finite at iteration {}", state.iteration)};
  };
  is_sparse_ = curvature.sparse(sparse_) > 0;
  if (is_sparse_) {
    const Eigen::Map<const Eigen::ArrayXd> values(sparse_.values.data(),
                                                  static_cast<Index>(sparse_.values.size()));
    if (!values.allFinite()) return not_finite();
    return {};
  }
  if (!curvature.dense(hessian_)) {
    const Index n = host_.size();
    if (n > options_.max_assembled)
      throw InvalidInput(fmt::format(
          "newton: the problem offers no dense Hessian and |phi| = {} exceeds max_assembled = {}; "
          "use trust-region",
          n, options_.max_assembled));
    hessian_.resize(n, n);
    for (Index j = 0; j < n; ++j) {
      Space<V>::unit(j, *direction_);
      curvature.times(*direction_, *column_);
      Space<V>::to_host(*column_, hessian_.col(j).data());
      if (auto stop = nudged.asked_to_stop()) return stop;
    }
  }
  if (!hessian_.allFinite()) return not_finite();
  return {};
}

/// Cholesky itself does not mind bad scaling, but what a small pivot means depends on it.
template <Vector V>
void Newton<V>::scale_to_unit_diagonal() {
  const double peak = hessian_.cwiseAbs().maxCoeff();
  for (Index i = 0; i < host_.size(); ++i) {
    const double diagonal = std::abs(hessian_(i, i));
    scale_[i] = 1 / std::sqrt(diagonal > unit_roundoff<V>() * unit_roundoff<V>() * peak ? diagonal
                              : peak > 0                                                ? peak
                                                                                        : 1.0);
  }
  for (Index j = 0; j < host_.size(); ++j) hessian_.col(j).array() *= scale_[j] * scale_.array();
}

template <Vector V>
std::optional<Stop> Newton<V>::factor(Nudged<V>& nudged, const State<V>& state) {
  factored_ = false;
  if (!is_sparse_) scale_to_unit_diagonal();
  double shift = 0, shift_before = 0;
  // A factor whose smallest pivot is rounding would send the step far off.
  const auto definite = [&] {
    ++nudged.cost().factorizations;
    if (is_sparse_) return sparse_factor_.compute(sparse_, shift);
    hessian_.diagonal().array() += shift - shift_before;
    factor_.compute(hessian_);
    if (!factor_.succeeded()) return false;
    const auto pivots = factor_.pivots();
    const double spread = pivots.minCoeff() / pivots.maxCoeff();
    return spread * spread > static_cast<double>(host_.size()) * unit_roundoff<V>();
  };
  if (definite()) {
    factored_ = true;
    return {};
  }
  ++shifted_;
  // A sparse one is scaled where it is factored, to a diagonal of one.
  const double size = std::max(is_sparse_ ? 1.0 : hessian_.cwiseAbs().maxCoeff(), 1e-8 * state.gradient_norm);
  // Gershgorin: at τ = n·max|H_ij| the sum is diagonally dominant, so this ends.
  for (shift = 1e-3 * size; std::isfinite(shift); shift_before = shift, shift *= 2) {
    if (!definite()) continue;
    largest_shift_ = std::max(largest_shift_, shift);
    factored_ = true;
    return {};
  }
  return Stop{Status::singular,
              fmt::format("no shift makes the Hessian positive definite at iteration {}", state.iteration)};
}

template <Vector V>
std::optional<Stop> Newton<V>::advance(Nudged<V>& nudged, State<V>& state) {
  if (serves_) {
    auto stop = step(nudged, state);
    if (!stop || stop->status != Status::stalled) return stop;
  }
  const long shifted = shifted_;
  if (auto stop = form_hessian(nudged, state)) return stop;
  if (auto stop = factor(nudged, state)) return stop;
  auto stop = step(nudged, state);
  serves_ = serves_ && shifted_ == shifted;
  return stop;
}

template <Vector V>
std::optional<Stop> Newton<V>::step(Nudged<V>& nudged, State<V>& state) {
  apply(state.gradient, *direction_);
  Space<V>::scale(-1, *direction_);
  const double slope = Space<V>::dot(state.gradient, *direction_);
  const double before = state.gradient_norm;
  auto stop = search_->search(nudged, state, *direction_, slope, 1, 1e-4);
  serves_ = options_.keep_factor && !stop && search_->length() == 1 &&
            state.gradient_norm <= worthwhile_share() * before;
  return stop;
}

template <Vector V>
void Newton<V>::apply(const V& b, V& out) {
  if (!factored_) return Space<V>::copy(b, out);
  Space<V>::to_host(b, host_.data());
  if (is_sparse_) {
    sparse_factor_.solve_in_place(host_);
    return Space<V>::from_host(host_.data(), out);
  }
  host_.array() *= scale_.array();
  factor_.solve_in_place(host_);
  host_.array() *= scale_.array();
  Space<V>::from_host(host_.data(), out);
}

template <Vector V>
std::string Newton<V>::note() const {
  if (shifted_ == 0) return {};
  return fmt::format(
      "the Hessian was not positive definite in {} iterations and was shifted by up to {:.3g} of its "
      "diagonal",
      shifted_, largest_shift_);
}

template <Vector V>
std::size_t Newton<V>::bytes() const {
  if (!search_) return 0;
  return search_->bytes() + 2 * bytes_of(*direction_) + (is_sparse_ ? sparse_factor_.bytes() : 0) +
         sizeof(double) * static_cast<std::size_t>(2 * hessian_.size() + host_.size());
}

}  // namespace bilevel
