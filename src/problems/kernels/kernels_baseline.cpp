#define BILEVEL_LANES 2
#define BILEVEL_TABLE baseline_table
#include "target.inc"
