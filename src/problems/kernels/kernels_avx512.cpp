#define BILEVEL_LANES 8
#define BILEVEL_TABLE avx512_table
#include "target.inc"
