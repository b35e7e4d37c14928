#include <bilevel/inner/impl/on_face.hpp>

#include <Eigen/QR>

#include "clamped.hpp"

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
  std::vector<bool> holds(static_cast<std::size_t>(count), false);
  const auto hold = [&](Index i, double multiplier) {
    face.active.push_back(i);
    face.multipliers[i] = multiplier;
    holds[static_cast<std::size_t>(i)] = true;
  };
  if (constraints.separable()) {
    constexpr double infinite = std::numeric_limits<double>::infinity();
    Eigen::VectorXd lower = Eigen::VectorXd::Constant(n, -infinite), upper = -lower, sum;
    for (const Index i : touched) {
      const Index element = constraints.elements[static_cast<std::size_t>(i)];
      if (element < 0)
        sum = rows.normals.col(i);
      else
        (rows.normals(element, i) > 0 ? lower : upper)[element] = 0;
      if (element >= 0 && i < rows.equalities) upper[element] = 0;
    }
    const Clamped split = clamp(gradient, lower, upper, sum, 0, 0);
    for (const Index i : touched)
      if (const double multiplier = multiplier_of(constraints, split, i); !std::isnan(multiplier))
        hold(i, multiplier);
    if (!split.feasible) face.fault = "the multipliers of the constraints are lost in rounding";
  } else {
    LinearConstraints cone;
    cone.normals.resize(n, static_cast<Index>(touched.size()));
    cone.limits = Eigen::VectorXd::Zero(static_cast<Index>(touched.size()));
    cone.equalities = rows.equalities;
    for (std::size_t k = 0; k < touched.size(); ++k)
      cone.normals.col(static_cast<Index>(k)) = rows.normals.col(touched[k]);
    const QuadraticProgramSolution split =
        solve_quadratic_program(Eigen::MatrixXd::Identity(n, n), gradient, cone);
    for (const Index k : split.active) hold(touched[static_cast<std::size_t>(k)], split.multipliers[k]);
    if (!split.feasible)
      face.fault =
          fmt::format("the quadratic programme of the constraints' multipliers {}", sentence(split.end));
  }
  for (const Index i : touched)
    if (!holds[static_cast<std::size_t>(i)] && i >= rows.equalities) face.undecided.push_back(i);
  // Bounds are a basis already; the other normals without the elements that bounds hold are what is left.
  std::vector<Index> bounds, others;
  for (const Index i : face.active)
    (constraints.elements[static_cast<std::size_t>(i)] < 0 ? others : bounds).push_back(i);
  const auto held = static_cast<Index>(bounds.size()), left = static_cast<Index>(others.size());
  Eigen::MatrixXd normals(n, left);
  for (Index k = 0; k < left; ++k) normals.col(k) = rows.normals.col(others[static_cast<std::size_t>(k)]);
  basis = Eigen::MatrixXd::Zero(n, held + left);
  for (Index k = 0; k < held; ++k) {
    const Index element = constraints.elements[static_cast<std::size_t>(bounds[static_cast<std::size_t>(k)])];
    basis(element, k) = 1;
    normals.row(element).setZero();
  }
  if (left > 0)
    basis.rightCols(left) =
        Eigen::HouseholderQR<Eigen::MatrixXd>(normals).householderQ() * Eigen::MatrixXd::Identity(n, left);
  return face;
}

std::string one_sided(const NamedConstraints& constraints, const Face& face, double state_size,
                      double curvature, double distance) {
  // What a state that is moved by a millionth of its size, or by its own error, may not change. A state at
  // the origin has the size of what bounds it most closely.
  double size = state_size;
  for (Index i = 0; state_size == 0 && i < constraints.rows.limits.size(); ++i) {
    const double limit = std::abs(constraints.rows.limits[i]) / constraints.rows.normals.col(i).norm();
    if (limit > 0 && (size == 0 || limit < size)) size = limit;
  }
  const double near = std::max(1e-6 * (size > 0 ? size : 1), 10 * distance);
  const auto name = [&](Index i) -> const std::string& {
    return constraints.names[static_cast<std::size_t>(i)];
  };
  if (!face.undecided.empty())
    return fmt::format("{} is touched and does not hold the state", name(face.undecided.front()));
  std::vector<bool> active(constraints.names.size(), false);
  for (const Index i : face.active) {
    active[static_cast<std::size_t>(i)] = true;
    if (i < constraints.rows.equalities) continue;
    const double held = face.multipliers[i] * constraints.rows.normals.col(i).norm();
    if (held <= curvature * near)
      return fmt::format("the multiplier of {} is {:.3g}, nearly zero", name(i), face.multipliers[i]);
  }
  for (Index i = constraints.rows.equalities; i < face.slacks.size(); ++i)
    if (!active[static_cast<std::size_t>(i)] &&
        face.slacks[i] <= near * constraints.rows.normals.col(i).norm())
      return fmt::format("{} is nearly reached, at a distance of {:.3g}", name(i), face.slacks[i]);
  return {};
}

template class OnFace<Eigen::VectorXd>;
template class OnFace<Eigen::VectorXf>;

}  // namespace bilevel
