// expect: a problem needs double outer(phi, theta, Wanted<V>)
#include <bilevel/outer/minimise.hpp>

using Vec = Eigen::VectorXd;

struct NoOuterLoss {
  Vec initial_phi() const { return Vec::Zero(1); }
  Vec initial_theta() const { return Vec::Zero(1); }
  double inner(const Vec&, const Vec&, bilevel::Wanted<Vec>) { return 0; }
};

int main() {
  bilevel::minimise(NoOuterLoss{});
}
