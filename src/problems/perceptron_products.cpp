#include "problems/perceptron_loss.hpp"
#include "problems/row_major_product.hpp"

namespace bilevel::problems {

/// R-operator (Pearlmutter 1994), v in the place of each layer's weights V_l:
///   R{z_l} = R{a_(l−1)}W_l + a_(l−1)V_l,  R{a_l} = σ′∘R{z_l},  R{δ_L} = w·loss″·R{z_L}
///   R{δ_l} = σ′∘(R{δ_(l+1)}W_(l+1)ᵀ + δ_(l+1)V_(l+1)ᵀ) + G_l∘σ″∘R{z_l}
///   R{∂W_l} = R{a_(l−1)}ᵀδ_l + a_(l−1)ᵀR{δ_l}
void PerceptronLoss::times(const Trace& t, const Vec& v, Vec& out) {
  const auto last = static_cast<std::size_t>(shape_.layers()) - 1;
  each_chunk(6, [&](Chunk& chunk) {
    for (std::size_t k = chunk.first; k < chunk.last; ++k) {
      const Block& b = blocks_[k];
      const double keep = k == chunk.first ? 0 : 1;
      for (std::size_t l = 0; l <= last; ++l) {
        const auto layer = static_cast<Index>(l);
        const Index units = shape_.units(layer), inputs = shape_.inputs(layer), place = shape_.place(layer);
        double* z = chunk.pulled[l].data();
        if (l == 0) {
          first_layer(b, v.data(), z);
        } else {
          const Eigen::Map<const Eigen::RowVectorXd> bias(v.data() + place + inputs * units, units);
          Eigen::Map<Rows>(z, b.count, units).rowwise() = bias;
          multiply(Flipped::no, Flipped::no, b.count, units, inputs,
                   t.activations[l - 1].data() + b.place * inputs, inputs, v.data() + place, units, 1, z,
                   units);
          multiply(Flipped::no, Flipped::no, b.count, units, inputs, chunk.moved[l - 1].data(), inputs,
                   t.at.data() + place, units, 1, z, units);
        }
        if (l == last) break;
        const double* s = t.slopes[l].data() + b.place * units;
        const double* bends = t.bends[l].data() + b.place * units;
        double* a = chunk.moved[l].data();
        for (Index i = 0; i < b.count * units; ++i) {
          a[i] = s[i] * z[i];
          z[i] *= bends[i];
        }
      }
      const Index c = shape_.outputs;
      for (Index i = 0; i < b.count; ++i) {
        const double* z = chunk.pulled[last].data() + i * c;
        const double* at = t.outputs.data() + (b.place + i) * c;
        double* delta = chunk.turned[last].data() + i * c;
        if (!softmax()) {
          delta[0] = at[0] * z[0];
          continue;
        }
        double mean = 0;
        for (Index o = 0; o < c; ++o) mean += at[o] * z[o];
        for (Index o = 0; o < c; ++o) delta[o] = weights_[b.place + i] * at[o] * (z[o] - mean);
      }
      for (std::size_t l = last + 1; l-- > 0;) {
        const auto layer = static_cast<Index>(l);
        const Index units = shape_.units(layer), inputs = shape_.inputs(layer), place = shape_.place(layer);
        const double* turned = chunk.turned[l].data();
        if (l == 0) {
          first_gradient(b, turned, keep == 0, chunk.sum.data());
          break;
        }
        const double* delta = t.deltas[l].data() + b.place * units;
        multiply(Flipped::yes, Flipped::no, inputs, units, b.count, chunk.moved[l - 1].data(), inputs, delta,
                 units, keep, chunk.sum.data() + place, units);
        multiply(Flipped::yes, Flipped::no, inputs, units, b.count,
                 t.activations[l - 1].data() + b.place * inputs, inputs, turned, units, 1,
                 chunk.sum.data() + place, units);
        Eigen::Map<Eigen::RowVectorXd> bias(chunk.sum.data() + place + inputs * units, units);
        if (keep == 0) bias.setZero();
        bias += Eigen::Map<const Rows>(turned, b.count, units).colwise().sum();
        double* below = chunk.turned[l - 1].data();
        multiply(Flipped::no, Flipped::yes, b.count, inputs, units, turned, units, t.at.data() + place, units,
                 0, below, inputs);
        multiply(Flipped::no, Flipped::yes, b.count, inputs, units, delta, units, v.data() + place, units, 1,
                 below, inputs);
        const double* s = t.slopes[l - 1].data() + b.place * inputs;
        const double* z = chunk.pulled[l - 1].data();
        for (Index i = 0; i < b.count * inputs; ++i) below[i] = s[i] * below[i] + z[i];
      }
    }
  });
  add_up(out);
}

}  // namespace bilevel::problems
