// expect: inner takes double and nothing else
#include <bilevel/adolc/differentiate.hpp>

struct DoubleOnly {
  double inner(const bilevel::Span<double>& phi, const bilevel::Span<double>& theta) const {
    return (phi[0] - theta[0]) * (phi[0] - theta[0]);
  }
  template <class T>
  T outer(const bilevel::Span<T>& phi, const bilevel::Span<T>&) const {
    return phi[0] * phi[0];
  }
};

int main() {
  bilevel::differentiate(DoubleOnly{}, {.phi = 1, .theta = 1});
}
