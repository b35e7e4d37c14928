#include <bilevel/gradient/impl/forward_mode.hpp>
#include <bilevel/gradient/impl/unrolled.hpp>

namespace bilevel {

template class Unrolled<Eigen::VectorXd>;
template class Unrolled<Eigen::VectorXf>;
template class ForwardMode<Eigen::VectorXd>;
template class ForwardMode<Eigen::VectorXf>;

}  // namespace bilevel
