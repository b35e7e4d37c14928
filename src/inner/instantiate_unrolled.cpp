#include <bilevel/inner/impl/plain_run.hpp>
#include <bilevel/inner/impl/recorded_run.hpp>
#include <bilevel/inner/impl/tangent_run.hpp>

namespace bilevel {

template class PlainRun<Eigen::VectorXd>;
template class PlainRun<Eigen::VectorXf>;
template class RecordedRun<Eigen::VectorXd>;
template class RecordedRun<Eigen::VectorXf>;
template class TangentRun<Eigen::VectorXd>;
template class TangentRun<Eigen::VectorXf>;

}  // namespace bilevel
