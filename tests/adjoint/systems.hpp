#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include <Eigen/Dense>

#include <bilevel/adjoint/linear_operator.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel::testing {

/// How a test reaches a vector type from dense double vectors; specialise it to run the conformance suite
/// on another one.
template <class V>
struct HostTraits;

template <class S>
struct HostTraits<Eigen::Matrix<S, Eigen::Dynamic, 1>> {
  using V = Eigen::Matrix<S, Eigen::Dynamic, 1>;
  static V from_host(const Eigen::VectorXd& x) { return x.template cast<S>(); }
  static Eigen::VectorXd to_host(const V& x) { return x.template cast<double>(); }
};

/// A·x = b with what is known about it.
struct System {
  std::string name;
  Eigen::MatrixXd a;
  Eigen::VectorXd b;
  bool symmetric = true;
  bool definite = true;  ///< symmetric with no negative eigenvalue
  bool singular = false;
  bool consistent = true;  ///< b lies in the range of A
  double condition = 1;    ///< of A on its range
};

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}

  Eigen::MatrixXd matrix(Eigen::Index rows, Eigen::Index cols) {
    return Eigen::MatrixXd::NullaryExpr(rows, cols, [&] { return normal_(engine_); });
  }
  Eigen::VectorXd vector(Eigen::Index n) { return matrix(n, 1); }
  Eigen::MatrixXd orthogonal(Eigen::Index n) {
    return Eigen::HouseholderQR<Eigen::MatrixXd>(matrix(n, n)).householderQ();
  }
  Eigen::MatrixXd with_spectrum(const Eigen::VectorXd& eigenvalues) {
    const Eigen::MatrixXd q = orthogonal(eigenvalues.size());
    const Eigen::MatrixXd a = q * eigenvalues.asDiagonal() * q.transpose();
    return 0.5 * (a + a.transpose());
  }

 private:
  std::mt19937_64 engine_;
  std::normal_distribution<double> normal_;
};

/// n values from 1/condition to 1, evenly spaced in the logarithm.
inline Eigen::VectorXd log_spectrum(Eigen::Index n, double condition) {
  return n == 1 ? Eigen::VectorXd::Ones(1)
                : Eigen::VectorXd(Eigen::VectorXd::LinSpaced(n, -std::log(condition), 0).array().exp());
}

/// An inverse known by its matrix.
template <class V>
class MatrixInverse final : public InverseApproximation<V> {
 public:
  explicit MatrixInverse(const Eigen::MatrixXd& matrix) : matrix_(matrix) {}
  void apply(const V& b, V& out) override {
    Space<V>::copy(HostTraits<V>::from_host(matrix_ * HostTraits<V>::to_host(b)), out);
  }
  Index rank() const override { return matrix_.rows(); }

 private:
  Eigen::MatrixXd matrix_;
};

/// A known by its matrix. What it gives away besides products is up to the flags.
template <class V>
class MatrixOperator : public LinearOperator<V> {
 public:
  explicit MatrixOperator(Eigen::MatrixXd matrix, bool is_symmetric = true)
      : matrix_(std::move(matrix)), symmetric_(is_symmetric) {}

  void apply(const V& x, V& out) override {
    ++products;
    Space<V>::copy(HostTraits<V>::from_host(matrix_ * HostTraits<V>::to_host(x)), out);
    if (products == poisoned_product) Space<V>::scale(std::numeric_limits<double>::quiet_NaN(), out);
  }
  bool symmetric() const override { return symmetric_; }
  bool dense(Eigen::MatrixXd& out) override {
    if (gives_matrix) out = matrix_;
    return gives_matrix;
  }
  bool diagonal(V& out) override {
    if (gives_diagonal) Space<V>::copy(HostTraits<V>::from_host(matrix_.diagonal()), out);
    return gives_diagonal;
  }
  bool precondition(const V& r, V& out) override {
    if (preconditioner.size() == 0 && matrix_.size() > 0) return false;
    Space<V>::copy(HostTraits<V>::from_host(preconditioner * HostTraits<V>::to_host(r)), out);
    return true;
  }

  InverseApproximation<V>* inherited() override {
    if (preconditioner.size() == 0 && matrix_.size() > 0) return nullptr;
    inverse_.emplace(preconditioner);
    return &*inverse_;
  }

  const Eigen::MatrixXd& matrix() const { return matrix_; }

  bool gives_matrix = true;
  bool gives_diagonal = true;
  Eigen::MatrixXd preconditioner;  ///< and what is inherited
  long poisoned_product = -1;      ///< this one, counted from 1, is NaN
  long products = 0;

 private:
  Eigen::MatrixXd matrix_;
  bool symmetric_;
  std::optional<MatrixInverse<V>> inverse_;
};

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

inline Mat diagonal(std::initializer_list<double> elements) {
  Mat a = Mat::Zero(static_cast<Eigen::Index>(elements.size()), static_cast<Eigen::Index>(elements.size()));
  Eigen::Index i = 0;
  for (const double element : elements) {
    a(i, i) = element;
    ++i;
  }
  return a;
}

/// The solution of least norm among those of least squares, singular values below 1e-12·‖A‖ taken for zero.
inline Vec least_norm(const Mat& a, const Vec& b) {
  Eigen::CompleteOrthogonalDecomposition<Mat> factor;
  factor.setThreshold(1e-12);
  factor.compute(a);
  return factor.solve(b);
}

using Operator = MatrixOperator<Vec>;

}  // namespace bilevel::testing
