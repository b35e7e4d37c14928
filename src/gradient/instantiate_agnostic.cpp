#include <bilevel/gradient/impl/agnostic.hpp>

namespace bilevel {

template class Agnostic<Eigen::VectorXd>;
template class Agnostic<Eigen::VectorXf>;

}  // namespace bilevel
