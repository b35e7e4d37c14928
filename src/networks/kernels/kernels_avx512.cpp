#define BILEVEL_FLOAT_TABLE avx512_float
#define BILEVEL_DOUBLE_TABLE avx512_double
#include "loops.inc"
