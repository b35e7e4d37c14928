#pragma once

#include <functional>
#include <limits>
#include <vector>

#include <bilevel/space/eigen.hpp>

namespace bilevel {

struct LanczosOptions {
  /// Vectors that are kept, ≥ 1: the products of the first sweep. Each further one begins with the two or
  /// three Ritz vectors that matter and takes as many products fewer.
  Index basis = 40;
  /// Sweeps at most, ≥ 1. With one, the ends are what its products show, converged or not.
  int sweeps = 30;
  /// An end has converged when the residual of its Ritz pair is below tolerance·|value|: for a simple
  /// eigenvalue twice as many digits of the value are right then.
  double tolerance = 1e-4;
};

/// The outermost Ritz values, which lie inside the spectrum; NaN where a product was not finite.
struct RitzEnds {
  double smallest = std::numeric_limits<double>::quiet_NaN();
  double largest = std::numeric_limits<double>::quiet_NaN();
  bool converged = false;
};

/// Both ends of the spectrum of a symmetric operator, by Lanczos' method with full reorthogonalisation and
/// thick restarts (Wu and Simon 2000). The basis stays in V; only its projection, a small matrix, is on the
/// host.
template <Vector V>
class Lanczos {
 public:
  using Apply = std::function<void(const V& x, V& out)>;

  Lanczos(Apply apply, const V& start, LanczosOptions options = {});

  RitzEnds run();
  /// The unit vector whose Ritz value was the smallest, after a run that was not NaN.
  V smallest_vector() const;

 private:
  bool sweep();
  RitzEnds diagonalise();
  void restart(Index kept);
  void append(const V& direction, double length);

  Apply apply_;
  LanczosOptions options_;
  std::vector<V> basis_, kept_;
  V product_;                // what the last product has outside of the basis
  Eigen::MatrixXd small_;    // the operator within the basis
  Eigen::MatrixXd vectors_;  // eigenvectors of it, in the order of its eigenvalues
  Eigen::VectorXd values_;
  Index used_ = 0;       // vectors of the basis that hold something
  double rest_ = 0;      // ‖product_‖
  double largest_ = 0;   // norm of any product
  Index converged_ = 0;  // ends that have
};

extern template class Lanczos<Eigen::VectorXd>;
extern template class Lanczos<Eigen::VectorXf>;

}  // namespace bilevel
