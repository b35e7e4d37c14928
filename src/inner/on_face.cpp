#include <bilevel/inner/impl/on_face.hpp>

#include <Eigen/QR>

namespace bilevel {

Face face_of(const NamedConstraints& constraints, const Eigen::VectorXd& phi, const Eigen::VectorXd& gradient,
             Eigen::MatrixXd& basis) {
  const LinearConstraints& rows = constraints.rows;
  const Index n = phi.size(), count = rows.limits.size();
  Face face;
  face.multipliers = Eigen::VectorXd::Zero(count);
  face.slacks = rows.normals.transpose() * phi - rows.limits;
  // Touched: within rounding of what a solver leaves.
  std::vector<Index> touched;
  for (Index i = 0; i < count; ++i) {
    const double size = std::abs(rows.limits[i]) + rows.normals.col(i).norm() * phi.norm();
    if (i < rows.equalities || std::abs(face.slacks[i]) <= 1e-10 * size) touched.push_back(i);
  }
  // The multipliers of the gradient's nearest point in the cone that they span: min ½‖d‖² + g·d with n·d ≥ 0.
  LinearConstraints cone;
  cone.normals.resize(n, static_cast<Index>(touched.size()));
  cone.limits = Eigen::VectorXd::Zero(static_cast<Index>(touched.size()));
  cone.equalities = rows.equalities;
  for (std::size_t k = 0; k < touched.size(); ++k)
    cone.normals.col(static_cast<Index>(k)) = rows.normals.col(touched[k]);
  const QuadraticProgramSolution split =
      solve_quadratic_program(Eigen::MatrixXd::Identity(n, n), gradient, cone);
  std::vector<bool> holds(static_cast<std::size_t>(count), false);
  for (const Index k : split.active) {
    const Index i = touched[static_cast<std::size_t>(k)];
    face.active.push_back(i);
    face.multipliers[i] = split.multipliers[k];
    holds[static_cast<std::size_t>(i)] = true;
  }
  for (const Index i : touched)
    if (!holds[static_cast<std::size_t>(i)] && i >= rows.equalities) face.undecided.push_back(i);
  const auto size = static_cast<Index>(face.active.size());
  Eigen::MatrixXd normals(n, size);
  for (Index k = 0; k < size; ++k)
    normals.col(k) = rows.normals.col(face.active[static_cast<std::size_t>(k)]);
  basis = Eigen::MatrixXd::Identity(n, size);
  if (size > 0) basis = Eigen::HouseholderQR<Eigen::MatrixXd>(normals).householderQ() * basis;
  return face;
}

template class OnFace<Eigen::VectorXd>;
template class OnFace<Eigen::VectorXf>;

}  // namespace bilevel
