#include <adjoint/adjoint_conformance.hpp>

#include <algorithm>

#include <conformance/block_vector.hpp>

namespace bilevel {

namespace testing {

using conformance::BlockVector;

template <>
struct HostTraits<BlockVector> {
  static BlockVector from_host(const Eigen::VectorXd& x) {
    BlockVector v(x.size());
    Space<BlockVector>::from_host(x.data(), v);
    return v;
  }
  static Eigen::VectorXd to_host(const BlockVector& v) {
    Eigen::VectorXd x(Space<BlockVector>::size(v));
    Space<BlockVector>::to_host(v, x.data());
    return x;
  }
};

using VectorTypes = ::testing::Types<Eigen::VectorXd, Eigen::VectorXf, BlockVector>;
INSTANTIATE_TYPED_TEST_SUITE_P(AllVectors, AdjointConformance, VectorTypes);

TEST(AdjointConformanceList, EverySolverThatCanBeMadeIsInTheSuite) {
  const auto entries = conforming_solvers();
  for (const std::string_view name : adjoint_solver_names())
    EXPECT_TRUE(std::any_of(entries.begin(), entries.end(), [&](const auto& e) { return e.name == name; }))
        << name;
  EXPECT_EQ(entries.size(), adjoint_solver_names().size());
}

}  // namespace testing
}  // namespace bilevel
