#define BILEVEL_PHASES avx2_phases
#define BILEVEL_VECTOR_BYTES 32
#include "phases_of_lanes.inc"
