#include <bilevel/gradient/impl/exact.hpp>
#include <bilevel/gradient/impl/implicit.hpp>
#include <bilevel/gradient/impl/settle_and_certify.hpp>

namespace bilevel {

template class SettleAndCertify<Eigen::VectorXd>;
template class SettleAndCertify<Eigen::VectorXf>;
template class Implicit<Eigen::VectorXd>;
template class Implicit<Eigen::VectorXf>;
template class Exact<Eigen::VectorXd>;
template class Exact<Eigen::VectorXf>;

}  // namespace bilevel
