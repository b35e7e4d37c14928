#define BILEVEL_FLOAT_TABLE avx2_float
#define BILEVEL_DOUBLE_TABLE avx2_double
#include "loops.inc"
