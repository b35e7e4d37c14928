#pragma once

namespace bilevel::networks {

/// Takes the memory that matrix products work in, now rather than with the first product: OpenBLAS wants it
/// in one piece for every thread that multiplies, and where it gets none it tries again for ever. False, with
/// nothing taken, where the address space is too small (ulimit -v).
bool reserve_product_memory();

}  // namespace bilevel::networks
