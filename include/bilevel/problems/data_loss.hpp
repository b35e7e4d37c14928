#pragma once

#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include <Eigen/Core>

#include <bilevel/problems/loss_kind.hpp>
#include <bilevel/problems/model_matrix.hpp>

namespace bilevel::problems {

/// The rows of one part of the data and what is known about them. Vectors have an element for each row of
/// the whole matrix; empty weights are ones, empty offsets zeros. Softmax reads `classes`, the others
/// `labels`.
struct Samples {
  std::shared_ptr<const ModelMatrix> matrix;
  std::shared_ptr<const Eigen::VectorXd> labels, weights, offsets;
  std::shared_ptr<const std::vector<int>> classes;
};

/// loss″ of every row at one point, prepared once and multiplied many times.
struct RowCurvature {
  Eigen::VectorXd weights;  ///< w_i·loss″_i, or the probabilities of softmax, row by row
};

/// The weighted mean of a loss over some rows, as a function of the parameters u of a model of the stored
/// features: what the layers above judge by.
class RowLosses {
 public:
  virtual ~RowLosses() = default;

  virtual Index outputs() const { return 1; }
  virtual double value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) = 0;
  /// Losses of single rows, and their margins (row by row), for measures of quality.
  virtual void rows(const Eigen::VectorXd& u, Eigen::VectorXd* losses, Eigen::VectorXd& margins) = 0;
  /// loss′ of single rows by their margins, row by row, without their weights.
  virtual void slopes(const Eigen::VectorXd& u, Eigen::VectorXd& out) = 0;
  /// The weighted mean of loss″ of a loss of one margin.
  virtual double mean_curvature(const Eigen::VectorXd& u) = 0;

  const std::vector<RowRange>& ranges() const { return ranges_; }
  const Samples& samples() const { return samples_; }
  double total_weight() const { return total_weight_; }
  Index row_count() const;

 protected:
  RowLosses(Samples samples, std::vector<RowRange> ranges);

  Samples samples_;
  std::vector<RowRange> ranges_;
  double total_weight_ = 0;
};

/// That of a linear model: u are the coefficients, (features + 1)·outputs numbers, the outputs of a feature
/// next to each other, the intercepts last.
class DataLoss : public RowLosses {
 public:
  /// What is known of a loss of one margin; null for softmax.
  virtual const LossKind* kind() const { return nullptr; }
  virtual LossShape shape() const = 0;
  /// loss″ at u. Where `value` was last asked for a gradient at the same u this costs nothing.
  virtual void curvature_at(const Eigen::VectorXd& u, RowCurvature& curvature) = 0;
  virtual void times(const RowCurvature& curvature, const Eigen::VectorXd& v, Eigen::VectorXd& out) = 0;
  /// The elements (j, j) and (j, intercept), for every feature and output, and those between the intercepts.
  virtual void diagonal(const RowCurvature& curvature, Eigen::VectorXd& squares,
                        Eigen::VectorXd& with_intercept, Eigen::MatrixXd& intercepts) = 0;
  /// The whole matrix; false where it would be too large.
  virtual bool dense(const RowCurvature& curvature, Eigen::MatrixXd& out) = 0;

  /// The weighted mean of x xᵀ over the rows, x with the column of ones; false where it would be too large.
  virtual bool second_moments(Eigen::MatrixXd& out) = 0;

  /// The least |distance| of a margin from where loss″ jumps.
  virtual double distance_to_kink(const Eigen::VectorXd&) { return std::numeric_limits<double>::infinity(); }
  /// √(mean loss′²), or a bound of it, at the u last given to `value`.
  virtual double slope_size() const = 0;
  /// Whether gradients come from moments formed once, G·u − c: then their rounding errors are those of both
  /// terms, however small the residuals are, and slope_size() is that of c alone.
  virtual bool keeps_moments() const { return false; }
  /// max_i of loss″ and Σ_i w_i·(least eigenvalue of loss″_i on the margins that matter)·x_i / Σ w, the
  /// latter with the column of ones: what bounds the smallest eigenvalue of a model with a free intercept.
  virtual double largest_curvature(const RowCurvature& curvature) const = 0;
  virtual void least_curvatures(const RowCurvature& curvature, Eigen::VectorXd& mean_of_rows) = 0;

  /// Roundings in a row: of a margin, of a sum over the rows, of an element of the dense matrix.
  struct Depths {
    double margin, sum, dense;
  };
  virtual Depths depths() const = 0;

  double mean_curvature(const Eigen::VectorXd& u) override;

 protected:
  /// Up to so many features the second moments are formed once, for the certificates.
  static constexpr Index kept_moments = 300;

  using RowLosses::RowLosses;
};

/// Of the rows of a loss, by their weights.
Extent measure(const RowLosses& loss, const Standardisation& standardisation);

/// `parameter` is that of the losses which have one. Throws InvalidInput for labels that the loss cannot
/// take.
std::unique_ptr<DataLoss> make_scalar_loss(kernels::Loss loss, Samples samples, std::vector<RowRange> ranges,
                                           double parameter = 1);
/// Multinomial: log Σ_c exp(m_c) − m_y.
std::unique_ptr<DataLoss> make_softmax_loss(Index classes, Samples samples, std::vector<RowRange> ranges);

}  // namespace bilevel::problems
