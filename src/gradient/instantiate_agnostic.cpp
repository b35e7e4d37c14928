#include <bilevel/gradient/agnostic.hpp>

namespace bilevel {

template class Agnostic<Eigen::VectorXd>;
template class Agnostic<Eigen::VectorXf>;

}  // namespace bilevel
