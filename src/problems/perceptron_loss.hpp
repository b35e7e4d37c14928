#pragma once

#include <vector>

#include <bilevel/problems/perceptron.hpp>

#include "problems/kernels/pieces.hpp"
#include "threads/one_blas_thread.hpp"

namespace bilevel::problems {

struct LayerMoments;

/// The loss of a perceptron over some rows, its gradient and its Hessian's products, as products of matrices
/// over blocks of rows: each pass reads the features of a block twice, the second time while they are in the
/// cache. Blocks belong to chunks that follow from the shape alone; each has a sum of its own and these are
/// added in their order, so results do not depend on the number of threads. Nothing is allocated once it is
/// made.
class PerceptronLoss final : public RowLosses {
 public:
  using Vec = Eigen::VectorXd;
  using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  /// What the passes at one point leave for each row: with z_l what enters layer l, G_l = ∂loss/∂a_l,
  struct Trace {
    std::vector<Rows> activations;  ///< a_l = σ(z_l) of each hidden layer
    std::vector<Rows> slopes;       ///< σ′(z_l)
    std::vector<Rows> bends;        ///< G_l∘σ″(z_l)
    std::vector<Rows> deltas;       ///< ∂loss/∂z_l of every layer
    Rows outputs;  ///< margins; after a backward pass softmax's probabilities, else w·loss″
    Vec at;        ///< the parameters
  };

  PerceptronLoss(PerceptronShape shape, kernels::Loss loss, Samples samples, std::vector<RowRange> ranges);

  Index outputs() const override { return shape_.outputs; }
  double value(const Vec& u, Vec* gradient) override;
  void rows(const Vec& u, Vec* losses, Vec& margins) override;
  void slopes(const Vec& u, Vec& out) override;
  double mean_curvature(const Vec& u) override;

  Trace make_trace() const;
  /// Prepares products at u.
  void linearise(const Vec& u, Trace& trace);
  /// out = H·v
  void times(const Trace& trace, const Vec& v, Vec& out);
  /// The gradient of Σ shares_i·loss_i.
  void mixed_gradient(const Vec& u, const Vec& shares, Vec& out);
  /// What the rows say of the curvature at u, layer by layer.
  std::vector<LayerMoments> moments(const Vec& u);

 private:
  struct Block {
    Index segment, row, count, place;  ///< row: within the segment; place: among the rows of all segments
  };
  struct Segment {
    RowRange range;
    kernels::View dense;
    kernels::SparseView sparse;
  };
  /// Of one chunk of blocks.
  struct Chunk {
    std::size_t first, last;
    double value;
    Vec sum;
    std::vector<Rows> moved, pulled, turned;  ///< R{a_l}, R{z_l} and R{δ_l} of a block
  };

  bool softmax() const { return shape_.outputs > 1; }
  const double* labels_of(const Block& block) const;
  void forward(const Block& block, const Vec& u, Trace& t) const;
  double losses(const Block& block, Trace& t, const double* weights) const;
  void backward(const Block& block, const Vec& u, Trace& t, Vec* sum, bool fresh) const;
  void first_layer(const Block& block, const double* weights, double* out) const;
  void first_gradient(const Block& block, const double* delta, bool fresh, double* out) const;
  double pass(const Vec& u, Trace& t, const Vec* weights, Vec* gradient);
  void add_up(Vec& out);
  void look_at_inputs(Index layer, const Vec& masses, LayerMoments& own) const;
  double loss(const double* margins, Index place) const;
  void slope_of(const double* margins, Index place, double* slope, double* curvature) const;
  template <class Work>
  void each_chunk(Index passes, Work work);

  PerceptronShape shape_;
  const LossKind* kind_;  // null for softmax
  std::vector<Segment> segments_;
  std::vector<Block> blocks_;
  std::vector<Chunk> chunks_;
  std::vector<Index> rows_of_place_;  // in the matrix
  Vec weights_;                       // w_i/Σw
  Trace trace_;
};

/// work(chunk) on all cores, where the passes take so many products of a row with a layer's weights.
template <class Work>
void PerceptronLoss::each_chunk(Index passes, Work work) {
  const OneBlasThread one;
  // Eight products in the time of an element of a pass.
  kernels::for_each_piece(static_cast<Index>(chunks_.size()), passes * row_count() * shape_.size() / 8,
                          [&](Index k) { work(chunks_[static_cast<std::size_t>(k)]); });
}

}  // namespace bilevel::problems
