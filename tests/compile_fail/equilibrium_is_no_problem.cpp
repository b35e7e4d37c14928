// expect: with_difference_products
#include <bilevel/problem/adapter.hpp>
#include <bilevel/problem/differenced.hpp>
#include <bilevel/space/eigen.hpp>

using Vec = Eigen::VectorXd;

struct Settling {
  Vec initial_phi() const { return Vec::Zero(1); }
  Vec initial_theta() const { return Vec::Zero(1); }
  void residual(const Vec&, const Vec&, Vec&) {}
  double outer(const Vec&, const Vec&, bilevel::Wanted<Vec>) { return 0; }
};

// Differences of a residual give J·v and never Jᵀ·v.
int main() {
  auto settling = bilevel::make_problem(Settling{});
  bilevel::with_difference_products(settling);
}
