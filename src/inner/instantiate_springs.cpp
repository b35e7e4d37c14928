#include <bilevel/inner/impl/spring_controlled.hpp>

namespace bilevel {

template class SpringLoaded<Eigen::VectorXd>;
template class SpringLoaded<Eigen::VectorXf>;
template class SpringControlled<Eigen::VectorXd>;
template class SpringControlled<Eigen::VectorXf>;

}  // namespace bilevel
