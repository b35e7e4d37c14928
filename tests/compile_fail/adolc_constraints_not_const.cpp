// expect: phi_constraints cannot be called
#include <bilevel/adolc/differentiate.hpp>

struct Constrained {
  template <class T>
  T inner(const bilevel::Span<T>& phi, const bilevel::Span<T>& theta) const {
    return (phi[0] - theta[0]) * (phi[0] - theta[0]);
  }
  template <class T>
  T outer(const bilevel::Span<T>& phi, const bilevel::Span<T>&) const {
    return phi[0] * phi[0];
  }
  bilevel::PhiConstraints phi_constraints() {
    return bilevel::PhiConstraints::box(Eigen::VectorXd::Zero(1), Eigen::VectorXd::Ones(1));
  }
};

int main() {
  bilevel::differentiate(Constrained{}, {.phi = 1, .theta = 1});
}
