#include <bilevel/gradient/impl/automatic.hpp>
#include <bilevel/gradient/impl/checked_by_solver.hpp>
#include <bilevel/gradient/impl/spring_agnostic.hpp>

namespace bilevel {

template class Automatic<Eigen::VectorXd>;
template class Automatic<Eigen::VectorXf>;
template class CheckedBySolver<Eigen::VectorXd>;
template class CheckedBySolver<Eigen::VectorXf>;
template class SpringAgnostic<Eigen::VectorXd>;
template class SpringAgnostic<Eigen::VectorXf>;

}  // namespace bilevel
