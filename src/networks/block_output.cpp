#include "block.hpp"

#include <cmath>

// The output layer of a block: where the nudge acts.

namespace bilevel::networks {

template <class S>
void Block<S>::nudge_by(std::complex<double> beta) {
  beta_ = std::complex<S>(beta);
  const Index last = a_.depth();
  const bool squared = a_.read_out == ReadOut::squared;
  for (Index i = 0; i < a_.outputs(); ++i)
    output_inverse_[i] = 1 / (couplings_.stiffness(last, i) + (squared ? beta_.real() : S(0)));
  const Eigen::Map<const Vector> bias(couplings_.bias(last), a_.outputs());
  auto real = part_of(output_base_, 0);
  real = beta_.real() * targets_.leftCols(samples_);
  if (last > 1) real.colwise() += bias;
  if (parts_ == 2) part_of(output_base_, 1) = beta_.imag() * targets_.leftCols(samples_);
}

/// One Newton step for u + β(softmax(u) − y) = drive + b. With p = softmax(u) the matrix is 1 + β(diag p −
/// ppᵀ), which Sherman and Morrison's formula inverts; without a nudge it is the linear unit itself.
template <class S>
void Block<S>::settle_softmax_output(bool watched) {
  const Index units = a_.outputs(), last = a_.depth();
  const S beta = beta_.real();
  S* const u = at(u_, last).data();
  const S* const drive = at(drive_, last).data();
  if (beta != 0) loops_.softmax(units, active_, u, softmax_.data());
  for (Index c = 0; c < active_; ++c) {
    S most = 0, across = 0, within = 0;
    const S* const p = softmax_.data() + c * units;
    for (Index i = c * units; i < (c + 1) * units && beta != 0; ++i) {
      const S inverse = 1 / (1 + beta * softmax_.data()[i]);
      across += softmax_.data()[i] * inverse *
                (u[i] - drive[i] - output_base_.data()[i] + beta * softmax_.data()[i]);
      within += softmax_.data()[i] * inverse * softmax_.data()[i];
    }
    const S shared = beta * across / (1 - beta * within);
    for (Index i = 0; i < units; ++i) {
      const Index at_unit = c * units + i;
      S change = u[at_unit] - drive[at_unit] - output_base_.data()[at_unit];
      if (beta != 0) change = (change + beta * p[i] + shared * p[i]) / (1 + beta * p[i]);
      u[at_unit] -= change;
      most = std::max(most, std::abs(change));
    }
    if (watched) moved_[c] = std::max(moved_[c], most);
  }
}

/// The output in the complex plane: u(1 + β) = drive + b + βy with the squared error, else the same step of
/// Newton's as above.
template <class S>
void Block<S>::settle_complex_output(const RelaxationOptions& options, bool watched) {
  using Number = std::complex<S>;
  const Index units = a_.outputs();
  const bool squared = a_.read_out == ReadOut::squared;
  const Number own = Number(1) + beta_;
  // As `rate_` has it: the whole way, or by the slope.
  const Number rate =
      static_cast<S>(options.step) * (options.schedule == Schedule::gradient ? own : Number(1));
  Matrix& u = at(u_, a_.depth());
  Matrix& drive = at(drive_, a_.depth());
  for (Index c = 0; c < active_; ++c) {
    const auto number = [&](const Matrix& m, Index i) { return Number(m(i, 2 * c), m(i, 2 * c + 1)); };
    Number sum = 0, across = 0, within = 0;
    const S most_real = u.col(2 * c).maxCoeff();
    if (!squared)
      for (Index i = 0; i < units; ++i) {
        exponentials_[i] = std::exp(number(u, i) - most_real);
        sum += exponentials_[i];
      }
    for (Index i = 0; i < units && !squared; ++i) {
      const Number p = exponentials_[i] /= sum, inverse = Number(1) / (Number(1) + beta_ * p);
      across += p * inverse * (number(u, i) - number(drive, i) - number(output_base_, i) + beta_ * p);
      within += p * inverse * p;
    }
    const Number shared = beta_ * across / (Number(1) - beta_ * within);
    S most = 0;
    for (Index i = 0; i < units; ++i) {
      const Number received = number(drive, i) + number(output_base_, i), p = exponentials_[i];
      const Number change = squared
                                ? rate * (number(u, i) - received / own)
                                : (number(u, i) - received + (beta_ + shared) * p) / (Number(1) + beta_ * p);
      u(i, 2 * c) -= change.real();
      u(i, 2 * c + 1) -= change.imag();
      most = std::max({most, std::abs(change.real()), std::abs(change.imag())});
    }
    if (watched) moved_[c] = std::max(moved_[c], most);
  }
}

template void Block<float>::nudge_by(std::complex<double>);
template void Block<double>::nudge_by(std::complex<double>);
template void Block<float>::settle_softmax_output(bool);
template void Block<double>::settle_softmax_output(bool);
template void Block<float>::settle_complex_output(const RelaxationOptions&, bool);
template void Block<double>::settle_complex_output(const RelaxationOptions&, bool);

}  // namespace bilevel::networks
