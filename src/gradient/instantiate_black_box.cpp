#include <bilevel/gradient/impl/differenced_solves.hpp>
#include <bilevel/gradient/impl/finite_difference.hpp>
#include <bilevel/gradient/impl/random_difference.hpp>
#include <bilevel/gradient/impl/settled_value.hpp>

namespace bilevel {

template class SettledValue<Eigen::VectorXd>;
template class SettledValue<Eigen::VectorXf>;
template class DifferencedSolves<Eigen::VectorXd>;
template class DifferencedSolves<Eigen::VectorXf>;
template class FiniteDifference<Eigen::VectorXd>;
template class FiniteDifference<Eigen::VectorXf>;
template class RandomDifference<Eigen::VectorXd>;
template class RandomDifference<Eigen::VectorXf>;

}  // namespace bilevel
