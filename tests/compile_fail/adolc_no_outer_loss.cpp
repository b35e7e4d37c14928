// expect: needs template <class T> T outer(const Span<T>& phi, const Span<T>& theta) const
#include <bilevel/adolc/differentiate.hpp>

struct InnerOnly {
  template <class T>
  T inner(const bilevel::Span<T>& phi, const bilevel::Span<T>& theta) const {
    return (phi[0] - theta[0]) * (phi[0] - theta[0]);
  }
};

int main() {
  bilevel::differentiate(InnerOnly{}, {.phi = 1, .theta = 1});
}
