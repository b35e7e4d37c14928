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

}  // namespace claims
