#pragma once

#include "laboratory.hpp"

namespace claims {

/// Both matrices at hand, for problems small enough to write them down.
struct DenseCurvature : bilevel::Curvature<Vec> {
  void times(const Vec& v, Vec& out) override { out = hessian * v; }
  void transpose_times(const Vec& v, Vec& out) override { out = hessian.transpose() * v; }
  void cross_times(const Vec& v, Vec& out) override { out = cross.transpose() * v; }
  void cross_apply(const Vec& u, Vec& out) override { out = cross * u; }
  bool dense(Mat& out) override {
    out = hessian;
    return true;
  }

  Mat hessian;  ///< ∂φ² of the loss, or ∂φ of the residual
  Mat cross;    ///< χ, |φ|×|θ|
};

/// A problem, or an equilibrium, whose matrices are written down.
template <class Kind>
class Dense : public Kind {
 public:
  void linearise(const Vec& phi, const Vec& theta, double beta,
                 std::unique_ptr<bilevel::Curvature<Vec>>& reuse) final {
    if (!reuse) reuse = std::make_unique<DenseCurvature>();
    fill(static_cast<DenseCurvature&>(*reuse), phi, theta, beta);
  }

 protected:
  /// Both matrices of L_in + β·L_out, or of the residual + β·∂φ L_out.
  virtual void fill(DenseCurvature& c, const Vec& phi, const Vec& theta, double beta) = 0;
};

}  // namespace claims
