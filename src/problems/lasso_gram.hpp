#pragma once

#include <vector>

#include <bilevel/problems/lasso.hpp>

namespace bilevel::problems {

inline std::size_t at(Index i) {
  return static_cast<std::size_t>(i);
}

/// C_jk = mean of (x̃_j − m_j)(x̃_k − m_k) over the training rows, m the means where there is an intercept
/// (which coordinate descent then need not visit) and 0 otherwise. It does not depend on θ: columns are added
/// as features are met and serve every later θ. Where the features are few it holds all from the beginning.
class Lasso::Gram {
 public:
  /// Up to here all features are held.
  static constexpr Index few = 1000;
  /// More features than this are not held at once: 1.2 GB.
  static constexpr Index most = 12000;

  Gram(DataLoss& training, const Standardisation& standardisation, bool intercept);

  /// The features held, in the order of their slots.
  const std::vector<Index>& features() const { return features_; }
  Index count() const { return static_cast<Index>(features_.size()); }
  /// −1 where the feature is not held.
  Index slot(Index feature) const { return slot_[static_cast<std::size_t>(feature)]; }
  /// Adds the columns that are missing, in one pass over the rows. Others are forgotten where there is no
  /// room.
  void hold(const std::vector<Index>& wanted);
  void forget();

  const double* column(Index slot) const { return c_.col(slot).data(); }
  double operator()(Index a, Index b) const { return c_(a, b); }
  /// m_j of every feature; zeros without an intercept.
  const Vec& means() const { return means_; }
  /// The Hessian of f restricted to some held features, with the row of the intercept last where there is
  /// one.
  void hessian(const std::vector<Index>& features, Mat& out) const;
  /// Roundings in a row on the way to one element.
  double depth() const;

 private:
  void hold_all();
  void add_dense(Index before);
  void add_sparse(Index before);

  DataLoss& training_;
  const Standardisation& standardisation_;
  bool intercept_;
  Vec stored_means_, centre_, means_;
  std::vector<Index> features_, slot_;
  Mat c_;  // leading count() rows and columns in use
};

/// What the rounding bounds need to know about one part of the data.
struct Lasso::RoundingSizes {
  RoundingSizes(const DataLoss& loss);

  double label_size;  ///< ≥ √mean (|y| + |offset|)²
  double sum_depth;   ///< roundings in a row of a sum over the rows
};

}  // namespace bilevel::problems
