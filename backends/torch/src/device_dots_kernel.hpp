#pragma once

namespace bilevel::torch {

/// Products of one vector that one reading of it serves.
inline constexpr int dot_products_a_pass = 4;
/// Sums that a product is first divided into: the same on every device, so that its rounding is.
inline constexpr int dot_blocks = 1024;

/// out_k = ⟨x, ys_k⟩ for k < count ≤ dot_products_a_pass, of floats where `single`, else of doubles.
/// `partial` holds dot_products_a_pass·dot_blocks numbers, `stream` is a cudaStream_t.
void launch_dots(const void* x, const void* const* ys, int count, long long size, bool single,
                 double* partial, double* out, void* stream);

}  // namespace bilevel::torch
