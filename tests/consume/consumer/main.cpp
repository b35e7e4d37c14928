#include <fmt/format.h>
#include <bilevel/bilevel.hpp>

int main() {
  const auto problem = bilevel::problems::make("duopoly");
  const auto inner = bilevel::make_inner_solver<Eigen::VectorXd>("newton", *problem);
  const auto estimator = bilevel::make_estimator<Eigen::VectorXd>("implicit-direct", *problem, *inner);
  const auto optimizer = bilevel::make_optimizer("lbfgs");
  const bilevel::Summary s =
      bilevel::solve<Eigen::VectorXd>(*estimator, *optimizer, problem->initial_theta(), {});
  fmt::print("bilevel {}: {}\n", bilevel::version, name(s.status));
  return succeeded(s.status) ? 0 : 1;
}
