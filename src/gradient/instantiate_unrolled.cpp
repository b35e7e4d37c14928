#include <bilevel/gradient/forward_mode.hpp>
#include <bilevel/gradient/unrolled.hpp>

namespace bilevel {

template class Unrolled<Eigen::VectorXd>;
template class Unrolled<Eigen::VectorXf>;
template class ForwardMode<Eigen::VectorXd>;
template class ForwardMode<Eigen::VectorXf>;

}  // namespace bilevel
