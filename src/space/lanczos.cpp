#include <bilevel/space/impl/lanczos.hpp>

namespace bilevel {

template class Lanczos<Eigen::VectorXd>;
template class Lanczos<Eigen::VectorXf>;

}  // namespace bilevel
