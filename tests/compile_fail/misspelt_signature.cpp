// expect: constants cannot be called as Constants (theta, center, double radius)
#include <bilevel/problem/adapter.hpp>
#include <bilevel/space/eigen.hpp>

using Vec = Eigen::VectorXd;

struct MisspeltSignature {
  Vec initial_phi() const { return Vec::Zero(1); }
  Vec initial_theta() const { return Vec::Zero(1); }
  double inner(const Vec&, const Vec&, bilevel::Wanted<Vec>) { return 0; }
  double outer(const Vec&, const Vec&, bilevel::Wanted<Vec>) { return 0; }
  bilevel::Constants constants(const Vec&) { return {}; }
};

int main() {
  bilevel::make_problem(MisspeltSignature{});
}
