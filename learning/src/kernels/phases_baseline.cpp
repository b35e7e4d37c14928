#define BILEVEL_PHASES baseline_phases
#define BILEVEL_VECTOR_BYTES 16
#include "phases_of_lanes.inc"
