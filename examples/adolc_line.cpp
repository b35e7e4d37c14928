// Two losses written as functions and nothing else: a line through noisy points, whose penalty exp(θ) is
// learned from points that were kept aside. Derivatives are taken by ADOL-C.
#include <bilevel/adolc/differentiate.hpp>
#include <bilevel/bilevel.hpp>

struct Line {
  std::vector<double> x{1, 2, 3}, y{1.2, 1.9, 3.4}, x_kept{1.5, 2.5}, y_kept{1.3, 2.3};
  template <class T>
  T inner(const bilevel::Span<T>& phi, const bilevel::Span<T>& theta) const {
    T sum = 0.5 * exp(theta[0]) * phi[0] * phi[0];
    for (std::size_t i = 0; i < x.size(); ++i) sum += 0.5 * pow(phi[0] * x[i] - y[i], 2);
    return sum;
  }
  template <class T>
  T outer(const bilevel::Span<T>& phi, const bilevel::Span<T>&) const {
    T sum = 0;
    for (std::size_t i = 0; i < x_kept.size(); ++i) sum += 0.5 * pow(phi[0] * x_kept[i] - y_kept[i], 2);
    return sum;
  }
};

int main() {
  const auto s = bilevel::minimise(bilevel::differentiate(Line{}, {.phi = 1, .theta = 1}));
  fmt::print("{}: slope {:.4f}, gradient {}\n", name(s.status), s.phi[0], name(s.certificate.verdict));
}
