#include <bilevel/outer/minimise.hpp>

int main() {
  bilevel::MinimiseOptions options;
  options.inner = bilevel::NewtonOptions{};
  options.estimator = bilevel::ImplicitMethod{.adjoint = bilevel::ConjugateGradientOptions{}};
}
