#include <bilevel/impl.hpp>

#include <bilevel/torch/algorithms.hpp>

namespace bilevel {
BILEVEL_TORCH_ALGORITHMS(, at::Tensor)
BILEVEL_TORCH_ALGORITHMS(, torch::SingleTensor)
}  // namespace bilevel
