#define BILEVEL_PRODUCTS avx2_products
#define BILEVEL_VECTOR_BYTES 32
#include "small_products.inc"
