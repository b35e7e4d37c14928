#include <space/space_conformance.hpp>

namespace bilevel::testing {

using SpaceTypes = ::testing::Types<Eigen::VectorXd, Eigen::VectorXf, conformance::BlockVector>;
INSTANTIATE_TYPED_TEST_SUITE_P(AllVectors, SpaceConformance, SpaceTypes);

}  // namespace bilevel::testing
