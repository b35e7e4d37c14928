#define BILEVEL_PHASES avx512_phases
#define BILEVEL_VECTOR_BYTES 64
#include "phases_of_lanes.inc"
