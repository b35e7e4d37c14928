#include "device_dots.hpp"

#ifdef BILEVEL_TORCH_KERNELS
#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "device_dots_kernel.hpp"
#endif

namespace bilevel::torch {

#ifdef BILEVEL_TORCH_KERNELS

at::Tensor device_dots(const at::Tensor& x, const std::vector<at::Tensor>& ys) {
  const bool single = x.scalar_type() == at::kFloat;
  if (!x.is_cuda() || !(single || x.scalar_type() == at::kDouble) || !x.is_contiguous()) return {};
  for (const at::Tensor& y : ys)
    if (y.device() != x.device() || y.scalar_type() != x.scalar_type() || !y.is_contiguous() ||
        y.numel() != x.numel())
      return {};
  const c10::DeviceGuard guard(x.device());
  const auto count = static_cast<std::int64_t>(ys.size());
  const auto options = x.options().dtype(at::kDouble).requires_grad(false);
  const at::Tensor out = at::empty({count}, options);
  const at::Tensor partial = at::empty({dot_products_a_pass * dot_blocks}, options);
  const auto stream = c10::cuda::getCurrentCUDAStream(x.get_device());
  for (std::int64_t first = 0; first < count; first += dot_products_a_pass) {
    const int some = static_cast<int>(std::min<std::int64_t>(dot_products_a_pass, count - first));
    const void* those[dot_products_a_pass] = {};
    for (int k = 0; k < some; ++k) those[k] = ys[static_cast<std::size_t>(first + k)].data_ptr();
    launch_dots(x.data_ptr(), those, some, x.numel(), single, partial.data_ptr<double>(),
                out.data_ptr<double>() + first, stream.stream());
  }
  return out;
}

#else

at::Tensor device_dots(const at::Tensor&, const std::vector<at::Tensor>&) {
  return {};
}

#endif

}  // namespace bilevel::torch
