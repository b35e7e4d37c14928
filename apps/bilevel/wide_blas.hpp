#pragma once

namespace app {

/// OpenBLAS takes its oldest kernels on a processor that is newer than itself, without its wide vectors. It
/// listens to OPENBLAS_CORETYPE only while it is loaded: where that is so and nobody has set the variable, it
/// is set and the program starts itself again. Returns where there is nothing to do.
void start_with_wide_blas(char** arguments);

/// The program begins once more, with the environment as it is now. Returns where that is not possible.
void start_again(char** arguments);

}  // namespace app
