#include <bilevel/gradient/impl/holomorphic_propagation.hpp>

namespace bilevel {

template class HolomorphicPropagation<Eigen::VectorXd>;
template class HolomorphicPropagation<Eigen::VectorXf>;

}  // namespace bilevel
