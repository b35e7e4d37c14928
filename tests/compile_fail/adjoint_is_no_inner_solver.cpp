// expect: ConjugateGradientOptions
#include <bilevel/outer/minimise.hpp>

// Phase 1 minimises; conjugate gradients solve phase 2.
int main() {
  bilevel::MinimiseOptions options;
  options.inner = bilevel::ConjugateGradientOptions{};
}
