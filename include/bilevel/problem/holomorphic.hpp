#pragma once

#include <complex>

#include <Eigen/Core>

namespace bilevel {

/// Which complex derivatives a caller wants, and where to; null means "not wanted". The vectors have their
/// size already.
struct ComplexWanted {
  Eigen::VectorXcd* phi = nullptr;
  Eigen::VectorXcd* theta = nullptr;
};

/// What a problem may offer beside its real derivatives: those of L = L_in + β·L_out continued to complex φ
/// and β at a real θ, in host memory. Continued, so nothing is conjugated: where the real loss has φᵀHφ,
/// this one has φᵀHφ and not φ*Hφ, and every derivative is holomorphic in φ and in β. At real arguments the
/// imaginary parts are zero and the real parts are those of `inner` and `outer`. A loss with |φ|, max or
/// another function that is not analytic has no such continuation and cannot offer this.
class Holomorphic {
 public:
  virtual ~Holomorphic() = default;

  /// ∂φ L and/or ∂θ L at (φ, θ, β). What is not finite says that a pole was met; it is never replaced.
  virtual void complex_derivatives(const Eigen::VectorXcd& phi, const Eigen::VectorXd& theta,
                                   std::complex<double> beta, ComplexWanted wanted) = 0;
  /// ∂φ² L = H + βG, symmetric (not Hermitian); false where there is no cheaper way than many derivatives.
  virtual bool complex_hessian(const Eigen::VectorXcd& /*phi*/, const Eigen::VectorXd& /*theta*/,
                               std::complex<double> /*beta*/, Eigen::MatrixXcd& /*out*/) {
    return false;
  }
  /// How much room is left between φ and the nearest singularity of the continuation: 1 at real φ, 0 where an
  /// argument of the losses is as far from the real axis as the nearest pole (iπ/2 for tanh), negative
  /// beyond. A set of φ with margins above 0 that contains the real ones has no pole in it.
  virtual double margin(const Eigen::VectorXcd& /*phi*/, const Eigen::VectorXd& /*theta*/) { return 1; }
};

}  // namespace bilevel
