#include "layered_loss.hpp"

#include <algorithm>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <Eigen/Core>

#include "kernels/small_products.hpp"

namespace bilevel::learning {

namespace {

template <class S>
using Rows = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class S>
using View = Eigen::Map<Rows<S>>;
template <class S>
using Seen = Eigen::Map<const Rows<S>>;
template <class S>
using SeenRow = Eigen::Map<const Eigen::Matrix<S, 1, Eigen::Dynamic>>;
template <class S>
using ViewRow = Eigen::Map<Eigen::Matrix<S, 1, Eigen::Dynamic>>;

/// Where things lie: weights layer by layer, and what a pass leaves for later ones. Of each hidden layer its
/// outputs h, δ (∂loss/∂ its sums) and ε (∂loss/∂h), of the last one p or the errors, and δ; then all Wᵀ.
struct Layout {
  std::vector<Eigen::Index> sizes, weights, hidden;
  Eigen::Index parameters = 0, units = 0, rows = 0;

  Layout(const std::vector<long>& layers, Eigen::Index row_count)
      : sizes(layers.begin(), layers.end()), rows(row_count) {
    for (std::size_t l = 1; l < sizes.size(); ++l) {
      weights.push_back(parameters);
      parameters += sizes[l] * (sizes[l - 1] + 1);
      hidden.push_back(units * rows);
      units += sizes[l];
    }
  }
  std::size_t layers() const { return weights.size(); }
  Eigen::Index in(std::size_t l) const { return sizes[l]; }
  Eigen::Index out(std::size_t l) const { return sizes[l + 1]; }
  Eigen::Index trace() const { return 3 * units * rows + parameters; }

  template <class S>
  Seen<S> matrix(const S* w, std::size_t l) const {
    return {w + weights[l], out(l), in(l)};
  }
  template <class S>
  SeenRow<S> bias(const S* w, std::size_t l) const {
    return {w + weights[l] + out(l) * in(l), out(l)};
  }
  template <class S>
  View<S> matrix(S* w, std::size_t l) const {
    return {w + weights[l], out(l), in(l)};
  }
  template <class S>
  ViewRow<S> bias(S* w, std::size_t l) const {
    return {w + weights[l] + out(l) * in(l), out(l)};
  }
  /// Part 0, 1 or 2 (h, δ, ε) of layer l in a trace.
  template <class S>
  View<S> part(S* trace, int which, std::size_t l) const {
    return {trace + which * units * rows + hidden[l], rows, out(l)};
  }
  template <class S>
  Seen<S> part(const S* trace, int which, std::size_t l) const {
    return {trace + which * units * rows + hidden[l], rows, out(l)};
  }
  template <class S>
  S* transposed(S* trace, std::size_t l) const {
    return trace + 3 * units * rows + weights[l];
  }
};

/// C = A·B, or C += A·B, each row by row.
template <class S>
void multiply(Seen<S> a, const S* b, View<S> c, bool add = false) {
  kernels::product<S>()(a.rows(), a.cols(), c.cols(), a.data(), a.cols(), 1, b, add, c.data());
}
/// C = Aᵀ·B, or C += Aᵀ·B.
template <class S>
void multiply_transposed(Seen<S> a, const S* b, View<S> c, bool add = false) {
  kernels::product<S>()(a.cols(), a.rows(), c.cols(), a.data(), 1, a.cols(), b, add, c.data());
}
template <class S>
void transpose(Seen<S> a, S* to) {
  for (Eigen::Index j = 0; j < a.cols(); ++j)
    for (Eigen::Index i = 0; i < a.rows(); ++i) to[j * a.rows() + i] = a(i, j);
}
template <class S>
Seen<S> seen(const View<S>& a) {
  return {a.data(), a.rows(), a.cols()};
}

/// Forwards and backwards; fills the trace and the gradient, and returns the loss.
template <class S>
S gradient(const Layout& at, bool classes, const S* w, const S* x, const S* y, S* trace, S* slope) {
  const std::size_t last = at.layers() - 1;
  const Seen<S> input(x, at.rows, at.in(0)), target(y, at.rows, at.out(last));
  for (std::size_t l = 0; l <= last; ++l) {
    View<S> h = at.part(trace, 0, l);
    const Seen<S> before(l == 0 ? x : at.part(trace, 0, l - 1).data(), at.rows, at.in(l));
    transpose<S>(at.matrix(w, l), at.transposed(trace, l));
    multiply<S>(before, at.transposed(trace, l), h);
    h.rowwise() += at.bias(w, l);
    if (l < last) h = h.array().tanh();
  }
  View<S> answer = at.part(trace, 0, last), delta = at.part(trace, 1, last);
  S loss = 0;
  const S share = S(1) / static_cast<S>(at.rows);
  if (classes) {
    for (Eigen::Index i = 0; i < at.rows; ++i) {
      const S largest = answer.row(i).maxCoeff();
      const S log_sum = largest + std::log((answer.row(i).array() - largest).exp().sum());
      loss += target.row(i).sum() * log_sum - target.row(i).dot(answer.row(i));
      answer.row(i) = (answer.row(i).array() - log_sum).exp();
      delta.row(i) = share * (target.row(i).sum() * answer.row(i) - target.row(i));
    }
  } else {
    answer -= target;
    loss = answer.squaredNorm();
    delta = 2 * share * answer;
  }
  for (std::size_t l = last + 1; l-- > 0;) {
    const View<S> d = at.part(trace, 1, l);
    const Seen<S> before(l == 0 ? x : at.part(trace, 0, l - 1).data(), at.rows, at.in(l));
    multiply_transposed<S>(seen(d), before.data(), at.matrix(slope, l));
    at.bias(slope, l) = d.colwise().sum();
    if (l == 0) break;
    View<S> e = at.part(trace, 2, l - 1);
    multiply<S>(seen(d), at.matrix(w, l).data(), e);
    at.part(trace, 1, l - 1).array() = e.array() * (1 - before.array().square());
  }
  return share * loss;
}

/// H·v at weights whose trace is there (Pearlmutter 1994): R of everything above, in `room` as the trace is
/// laid out.
template <class S>
void product(const Layout& at, bool classes, const S* w, const S* x, const S* y, const S* trace, const S* v,
             S* room, S* out) {
  const std::size_t last = at.layers() - 1;
  for (std::size_t l = 0; l <= last; ++l) {
    View<S> r = at.part(room, 0, l);
    const Seen<S> before(l == 0 ? x : at.part(trace, 0, l - 1).data(), at.rows, at.in(l));
    transpose<S>(at.matrix(v, l), at.transposed(room, l));
    multiply<S>(before, at.transposed(room, l), r);
    if (l > 0) multiply<S>(seen(at.part(room, 0, l - 1)), at.transposed(trace, l), r, true);
    r.rowwise() += at.bias(v, l);
    if (l < last) r.array() *= 1 - at.part(trace, 0, l).array().square();
  }
  const View<S> r = at.part(room, 0, last);
  View<S> d = at.part(room, 1, last);
  const S share = S(1) / static_cast<S>(at.rows);
  if (classes) {
    const Seen<S> p = at.part(trace, 0, last), target(y, at.rows, at.out(last));
    for (Eigen::Index i = 0; i < at.rows; ++i)
      d.row(i) = share * target.row(i).sum() * p.row(i).array() * (r.row(i).array() - p.row(i).dot(r.row(i)));
  } else {
    d = 2 * share * r;
  }
  for (std::size_t l = last + 1; l-- > 0;) {
    const View<S> rd = at.part(room, 1, l);
    const Seen<S> delta = at.part(trace, 1, l);
    const Seen<S> before(l == 0 ? x : at.part(trace, 0, l - 1).data(), at.rows, at.in(l));
    multiply_transposed<S>(seen(rd), before.data(), at.matrix(out, l));
    if (l > 0) multiply_transposed<S>(delta, at.part(room, 0, l - 1).data(), at.matrix(out, l), true);
    at.bias(out, l) = rd.colwise().sum();
    if (l == 0) break;
    View<S> e = at.part(room, 2, l - 1);
    multiply<S>(seen(rd), at.matrix(w, l).data(), e);
    multiply<S>(delta, at.matrix(v, l).data(), e, true);
    // R{ε∘(1 − h²)} = Rε∘(1 − h²) − 2 ε∘h∘Rh.
    at.part(room, 1, l - 1).array() =
        e.array() * (1 - before.array().square()) -
        2 * at.part(trace, 2, l - 1).array() * before.array() * at.part(room, 0, l - 1).array();
  }
}

/// What the passes over all tasks read.
struct Data {
  std::vector<long> sizes;
  bool classes = false;
  Tensor x, y;

  Layout layout() const { return {sizes, static_cast<Eigen::Index>(x.size(1))}; }
};

template <class Call>
void for_each_task(const Tensor& weights, Eigen::Index rows, const Call& call) {
  // Less than a tenth of a millisecond of arithmetic is no work for another core, which may be busy.
  constexpr std::int64_t worth_a_core = 4'000'000;
  const std::int64_t each = 6 * weights.size(1) * rows;
  at::parallel_for(0, weights.size(0), std::max<std::int64_t>(1, worth_a_core / each),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t t = begin; t < end; ++t) call(t);
                   });
}

/// Losses of all tasks, their gradients, and the traces of the passes.
struct Passed {
  Tensor loss, slope, trace;
};

Passed pass(const Data& data, const Tensor& weights) {
  const Layout layout = data.layout();
  const std::int64_t tasks = weights.size(0);
  Passed p{at::empty({tasks}, weights.options()), at::empty_like(weights),
           at::empty({tasks, layout.trace()}, weights.options())};
  const auto run = [&]<class S>(S) {
    const S *w = weights.data_ptr<S>(), *x = data.x.data_ptr<S>(), *y = data.y.data_ptr<S>();
    S *loss = p.loss.data_ptr<S>(), *trace = p.trace.data_ptr<S>(), *slope = p.slope.data_ptr<S>();
    const std::int64_t in = data.x.stride(0), out = data.y.stride(0);
    for_each_task(weights, layout.rows, [&](std::int64_t t) {
      loss[t] = gradient<S>(layout, data.classes, w + t * layout.parameters, x + t * in, y + t * out,
                            trace + t * layout.trace(), slope + t * layout.parameters);
    });
  };
  weights.scalar_type() == at::kFloat ? run(float{}) : run(double{});
  return p;
}

Tensor products(const Data& data, const Tensor& weights, const Tensor& trace, const Tensor& direction) {
  const Layout layout = data.layout();
  const Tensor v = direction.contiguous();
  Tensor result = at::empty_like(weights), room = at::empty_like(trace);
  const auto run = [&]<class S>(S) {
    const S *w = weights.data_ptr<S>(), *x = data.x.data_ptr<S>(), *y = data.y.data_ptr<S>(),
            *left = trace.data_ptr<S>(), *along = v.data_ptr<S>();
    S *out = result.data_ptr<S>(), *own = room.data_ptr<S>();
    for_each_task(weights, layout.rows, [&](std::int64_t t) {
      product<S>(layout, data.classes, w + t * layout.parameters, x + t * data.x.stride(0),
                 y + t * data.y.stride(0), left + t * layout.trace(), along + t * layout.parameters,
                 own + t * layout.trace(), out + t * layout.parameters);
    });
  };
  weights.scalar_type() == at::kFloat ? run(float{}) : run(double{});
  return result;
}

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;

Data data_of(AutogradContext* context) {
  const auto saved = context->get_saved_variables();
  Data data{{}, context->saved_data["classes"].toBool(), saved[1], saved[2]};
  for (const auto size : context->saved_data["sizes"].toIntVector()) data.sizes.push_back(size);
  return data;
}

void keep(AutogradContext* context, const Data& data, variable_list tensors) {
  context->save_for_backward(std::move(tensors));
  context->saved_data["classes"] = data.classes;
  context->saved_data["sizes"] = std::vector<std::int64_t>(data.sizes.begin(), data.sizes.end());
}

/// The gradients, already computed, as a function of the weights: what is asked of it is products H·v.
struct Slope : ::torch::autograd::Function<Slope> {
  static Tensor forward(AutogradContext* context, const Tensor& weights, const Tensor& slope,
                        const Tensor& trace, const Data& data) {
    keep(context, data, {weights, data.x, data.y, trace});
    return slope;
  }
  static variable_list backward(AutogradContext* context, variable_list above) {
    const auto saved = context->get_saved_variables();
    TORCH_CHECK(!above[0].requires_grad() || !at::GradMode::is_enabled(),
                "losses of layers have no third derivatives here");
    return {products(data_of(context), saved[0], saved[3], above[0]), {}, {}, {}};
  }
};

struct Loss : ::torch::autograd::Function<Loss> {
  static Tensor forward(AutogradContext* context, const Tensor& weights, const Data& data) {
    Passed p = pass(data, weights);
    keep(context, data, {weights, data.x, data.y, p.slope, p.trace});
    return p.loss;
  }
  static variable_list backward(AutogradContext* context, variable_list above) {
    const auto saved = context->get_saved_variables();
    const Tensor slope = Slope::apply(saved[0], saved[3], saved[4], data_of(context));
    return {slope * above[0].unsqueeze(1), {}};
  }
};

}  // namespace

bool LayeredLoss::suits(const Tensor& weights) {
  return weights.device().is_cpu() &&
         (weights.scalar_type() == at::kFloat || weights.scalar_type() == at::kDouble);
}

Tensor LayeredLoss::operator()(const Tensor& weights, const Tensor& x, const Tensor& y) const {
  return Loss::apply(weights.contiguous(), Data{sizes, classes, x.flatten(2).contiguous(), y.contiguous()});
}

}  // namespace bilevel::learning
