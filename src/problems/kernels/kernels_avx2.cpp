#define BILEVEL_LANES 4
#define BILEVEL_TABLE avx2_table
#include "target.inc"
