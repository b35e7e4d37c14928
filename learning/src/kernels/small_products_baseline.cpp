#define BILEVEL_PRODUCTS baseline_products
#define BILEVEL_VECTOR_BYTES 16
#include "small_products.inc"
