#include <bilevel/inner/impl/fixed_point.hpp>
#include <bilevel/inner/impl/newton.hpp>
#include <bilevel/inner/impl/newton_krylov.hpp>
#include <bilevel/inner/impl/trust_region.hpp>

namespace bilevel {

template class Newton<Eigen::VectorXd>;
template class Newton<Eigen::VectorXf>;
template class TrustRegion<Eigen::VectorXd>;
template class TrustRegion<Eigen::VectorXf>;
template class NewtonKrylov<Eigen::VectorXd>;
template class NewtonKrylov<Eigen::VectorXf>;
template class FixedPoint<Eigen::VectorXd>;
template class FixedPoint<Eigen::VectorXf>;

}  // namespace bilevel
