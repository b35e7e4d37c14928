// expect: inner_rows() wants template <class T, class Row> T inner_row
#include <vector>

#include <bilevel/adolc/differentiate.hpp>

struct Table {
  std::vector<double> y{1, 2, 3};
  bilevel::Rows inner_rows() const { return {y.data(), 3, 1}; }
  template <class T>
  T inner_row(const bilevel::Span<T>& phi, const bilevel::Span<T>& theta,
              const bilevel::Span<double>& row) const {
    return (phi[0] - theta[0] * row[0]) * (phi[0] - theta[0] * row[0]);
  }
  template <class T>
  T outer(const bilevel::Span<T>& phi, const bilevel::Span<T>&) const {
    return phi[0] * phi[0];
  }
};

int main() {
  bilevel::differentiate(Table{}, {.phi = 1, .theta = 1});
}
