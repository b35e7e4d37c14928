#include <cmath>

#include "problems/perceptron_loss.hpp"
#include "problems/perceptron_units.hpp"
#include "problems/row_major_product.hpp"

namespace bilevel::problems {
namespace {

/// Of more inputs only the squares are asked: their eigenvectors would cost more than they save.
constexpr Index most_inputs = 2000;
/// So many rows say enough of the inputs.
constexpr Index enough_rows = 2048;

}  // namespace

/// With the Hessian of a row's loss by its margins as Σ_s b_s·b_sᵀ, which for softmax is
/// Σ_s p_s·(e_s − p)(e_s − p)ᵀ, each b_s goes back through the layers as a slope does: G = Σ_i w_i Σ_s
/// b_s·b_sᵀ and A = the mean of inputs·inputsᵀ, rows counting by their share in the trace of G.
std::vector<LayerMoments> PerceptronLoss::moments(const Vec& u) {
  pass(u, trace_, nullptr, nullptr);
  const auto layers = static_cast<std::size_t>(shape_.layers());
  const Index count = row_count(), c = shape_.outputs;
  std::vector<Vec> masses(layers, Vec::Zero(count));
  std::vector<std::vector<Eigen::MatrixXd>> sums(chunks_.size());
  each_chunk(2, [&](Chunk& chunk) {
    auto& own = sums[static_cast<std::size_t>(&chunk - chunks_.data())];
    for (std::size_t l = 0; l < layers; ++l) {
      const Index units = shape_.units(static_cast<Index>(l));
      own.push_back(Eigen::MatrixXd::Zero(units, units));
    }
    Vec slope(c);
    for (std::size_t k = chunk.first; k < chunk.last; ++k) {
      const Block& b = blocks_[k];
      for (Index i = b.place; i < b.place + b.count; ++i) {
        double* m = trace_.outputs.data() + i * c;
        slope_of(m, i, slope.data(), m);
      }
      for (Index s = 0; s < c; ++s) {
        double* back = chunk.turned[layers - 1].data();
        for (Index i = 0; i < b.count; ++i) {
          const double* at = trace_.outputs.data() + (b.place + i) * c;
          const double weight = std::sqrt(std::max(0.0, weights_[b.place + i] * at[s]));
          for (Index o = 0; o < c; ++o) back[i * c + o] = softmax() ? -weight * at[o] : weight;
          if (softmax()) back[i * c + s] += weight;
        }
        for (std::size_t l = layers; l-- > 0;) {
          const auto layer = static_cast<Index>(l);
          const Index units = shape_.units(layer), inputs = shape_.inputs(layer);
          const Eigen::Map<const Rows> here(chunk.turned[l].data(), b.count, units);
          multiply(Flipped::yes, Flipped::no, units, units, b.count, here.data(), units, here.data(), units,
                   1, own[l].data(), units);
          masses[l].segment(b.place, b.count) += here.rowwise().squaredNorm();
          if (l == 0) break;
          multiply(Flipped::no, Flipped::yes, b.count, inputs, units, here.data(), units,
                   u.data() + shape_.place(layer), units, 0, chunk.turned[l - 1].data(), inputs);
          Eigen::Map<Rows>(chunk.turned[l - 1].data(), b.count, inputs).array() *=
              Eigen::Map<const Rows>(trace_.slopes[l - 1].data() + b.place * inputs, b.count, inputs).array();
        }
      }
    }
  });
  std::vector<LayerMoments> moments(layers);
  for (std::size_t l = 0; l < layers; ++l) {
    LayerMoments& own = moments[l];
    own.slopes = sums[0][l];
    for (std::size_t k = 1; k < sums.size(); ++k) own.slopes += sums[k][l];
    look_at_inputs(static_cast<Index>(l), masses[l], own);
  }
  return moments;
}

void PerceptronLoss::look_at_inputs(Index layer, const Vec& masses, LayerMoments& own) const {
  const Index inputs = shape_.inputs(layer), count = row_count();
  const Index stride = std::max<Index>(1, count / enough_rows), some = (count + stride - 1) / stride;
  double total = 0;
  for (Index i = 0; i < count; i += stride) total += masses[i];
  own.squares = own.mean = Vec::Zero(inputs + 1);
  const bool whole = inputs <= most_inputs;
  Rows scaled = Rows::Zero(whole ? some : 1, inputs + 1);
  const ModelMatrix& matrix = *samples_.matrix;
  for (Index i = 0; i < some; ++i) {
    const double share = total > 0 ? masses[i * stride] / total : 0, root = std::sqrt(share);
    if (share == 0) continue;
    if (layer == 0 && !whole) {
      matrix.for_each(rows_of_place_[static_cast<std::size_t>(i * stride)], [&](Index j, double x) {
        own.squares[j] += share * x * x;
        own.mean[j] += share * x;
      });
      own.squares[inputs] += share;
      own.mean[inputs] += share;
      continue;
    }
    auto into = scaled.row(whole ? i : 0);
    if (layer == 0) {
      matrix.for_each(rows_of_place_[static_cast<std::size_t>(i * stride)],
                      [&](Index j, double x) { into[j] = root * x; });
    } else {
      into.head(inputs) = root * trace_.activations[static_cast<std::size_t>(layer) - 1].row(i * stride);
    }
    into[inputs] = root;
    own.squares += into.cwiseAbs2().transpose();
    own.mean += root * into.transpose();
  }
  if (!whole) return;
  const OneBlasThread one;
  own.inputs = Eigen::MatrixXd::Zero(inputs + 1, inputs + 1);
  cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, static_cast<int>(inputs + 1), static_cast<int>(some),
              1, scaled.data(), static_cast<int>(inputs + 1), 0, own.inputs.data(),
              static_cast<int>(inputs + 1));
  own.inputs.triangularView<Eigen::StrictlyUpper>() = own.inputs.transpose();
}

}  // namespace bilevel::problems
