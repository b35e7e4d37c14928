// The suites of every vector type, on tensors.

#include <adjoint/adjoint_conformance.hpp>
#include <gradient/vector_conformance.hpp>
#include <space/space_conformance.hpp>

#include <bilevel/space/dots.hpp>
#include <bilevel/torch/algorithms.hpp>
#include <torch/shaped_tensor.hpp>

namespace bilevel {

namespace testing {

template <class V>
struct TensorTraits {
  static V from_host(const Eigen::VectorXd& x) {
    V v = conformance::shaped<V>(x.size());
    Space<V>::from_host(x.data(), v);
    return v;
  }
  static Eigen::VectorXd to_host(const V& v) { return host_copy(v); }
};
template <>
struct HostTraits<at::Tensor> : TensorTraits<at::Tensor> {};
template <>
struct HostTraits<torch::SingleTensor> : TensorTraits<torch::SingleTensor> {};

using TensorTypes = ::testing::Types<at::Tensor, torch::SingleTensor>;
INSTANTIATE_TYPED_TEST_SUITE_P(Tensors, SpaceConformance, TensorTypes);
INSTANTIATE_TYPED_TEST_SUITE_P(Tensors, AdjointConformance, TensorTypes);
INSTANTIATE_TYPED_TEST_SUITE_P(Tensors, VectorConformance, TensorTypes);

}  // namespace testing

namespace vectors_test {

TEST(TensorSpace, TakesTensorsOfAnyShape) {
  const at::Tensor x = ::torch::tensor({{1., -2.}, {3., .5}}, at::kDouble);
  at::Tensor y = Space<at::Tensor>::zeros_like(x);
  EXPECT_EQ(y.sizes(), x.sizes());
  Space<at::Tensor>::axpy(2, x, y);
  EXPECT_EQ(Space<at::Tensor>::dot(x, y), 2 * (1 + 4 + 9 + .25));
  Space<at::Tensor>::unit(2, y);
  EXPECT_TRUE(y.equal(::torch::tensor({{0., 0.}, {1., 0.}}, at::kDouble)));
  EXPECT_EQ(host_copy(x), (Eigen::VectorXd(4) << 1, -2, 3, .5).finished());
}

TEST(TensorSpace, SumsOfFloatsAreThoseOfDouble) {
  // 1 + 10⁶ numbers of 1e-8 that float would not see beside the 1.
  const torch::SingleTensor x(::torch::cat({::torch::ones({1}), ::torch::full({1000000}, 1e-4f)}));
  EXPECT_NEAR(Space<torch::SingleTensor>::dot(x, x), 1 + 1e6 * static_cast<double>(1e-4f) * 1e-4f, 1e-12);
}

TEST(TensorSpace, ATensorOfAnotherTypeIsRefused) {
  EXPECT_THROW(Space<at::Tensor>::zeros_like(::torch::ones({3}, at::kFloat)), InvalidInput);
  EXPECT_THROW(Space<torch::SingleTensor>::zeros_like(torch::SingleTensor(::torch::ones({3}, at::kDouble))),
               InvalidInput);
}

TEST(TensorSpace, CountsWhatIsFetchedAndNothingElse) {
  at::Tensor x = ::torch::ones({5}, at::kDouble), y = Space<at::Tensor>::zeros_like(x);
  const long before = torch::synchronisations();
  Space<at::Tensor>::axpy(2, x, y);
  Space<at::Tensor>::scale(3, y);
  Space<at::Tensor>::copy(y, x);
  Space<at::Tensor>::unit(1, y);
  Space<at::Tensor>::random(3, y);
  EXPECT_EQ(torch::synchronisations(), before);
  Space<at::Tensor>::dot(x, y);
  EXPECT_EQ(torch::synchronisations(), before + 1);
  Space<at::Tensor>::max_abs(x);
  EXPECT_EQ(torch::synchronisations(), before + 2);
  host_copy(x);
  EXPECT_EQ(torch::synchronisations(), before + 3);
}

TEST(TensorSpace, ManyProductsAreFetchedAtOnce) {
  const at::Tensor x = ::torch::tensor({1., 2.}, at::kDouble), y = ::torch::tensor({3., -1.}, at::kDouble);
  const std::vector<const at::Tensor*> both{&x, &y};
  double products[2];
  const long before = torch::synchronisations();
  dots<at::Tensor>(x, both, products);
  EXPECT_EQ(torch::synchronisations(), before + 1);
  EXPECT_EQ(products[0], 5);
  EXPECT_EQ(products[1], 1);
}

TEST(TensorSpace, NothingIsRecorded) {
  at::Tensor x = ::torch::ones({5}, at::kDouble).requires_grad_();
  at::Tensor y = Space<at::Tensor>::zeros_like(x);
  Space<at::Tensor>::axpy(1, x, y);
  Space<at::Tensor>::multiply(x, y);
  EXPECT_FALSE(y.requires_grad());
  Space<at::Tensor>::scale(2, x);  // a leaf that requires a gradient
  EXPECT_EQ(x[0].item<double>(), 2);
}

}  // namespace vectors_test
}  // namespace bilevel
