// expect: hessian_times, cross_times and cross_apply are offered together: all three or none
#include <bilevel/problem/adapter.hpp>
#include <bilevel/space/eigen.hpp>

using Vec = Eigen::VectorXd;

struct HalfOfTheProducts {
  Vec initial_phi() const { return Vec::Zero(1); }
  Vec initial_theta() const { return Vec::Zero(1); }
  double inner(const Vec&, const Vec&, bilevel::Wanted<Vec>) { return 0; }
  double outer(const Vec&, const Vec&, bilevel::Wanted<Vec>) { return 0; }
  void hessian_times(const Vec&, const Vec&, double, const Vec& v, Vec& out) { out = v; }
};

int main() {
  bilevel::make_problem(HalfOfTheProducts{});
}
