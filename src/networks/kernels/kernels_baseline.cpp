#define BILEVEL_FLOAT_TABLE baseline_float
#define BILEVEL_DOUBLE_TABLE baseline_double
#include "loops.inc"
