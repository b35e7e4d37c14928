#pragma once

#include <cstdint>

#include <Eigen/Core>

#include <bilevel/space/eigen.hpp>

/// Standard normal elements, the same for the same seed and shape.
inline Eigen::MatrixXd random_matrix(std::uint64_t seed, Eigen::Index rows, Eigen::Index cols) {
  Eigen::VectorXd draws(rows * cols);
  bilevel::Space<Eigen::VectorXd>::random(seed, draws);
  return Eigen::Map<Eigen::MatrixXd>(draws.data(), rows, cols);
}
