#include <bilevel/adolc/differentiate.hpp>

struct Templates {
  template <class T>
  T inner(const bilevel::Span<T>& phi, const bilevel::Span<T>& theta) const {
    return (phi[0] - theta[0]) * (phi[0] - theta[0]);
  }
  template <class T>
  T outer(const bilevel::Span<T>& phi, const bilevel::Span<T>&) const {
    return phi[0] * phi[0];
  }
};

int main() {
  bilevel::differentiate(Templates{}, {.phi = 1, .theta = 1});
}
