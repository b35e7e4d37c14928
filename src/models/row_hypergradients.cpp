#include "row_hypergradients.hpp"

#include <algorithm>
#include <utility>

#include <bilevel/adjoint/make_adjoint_solver.hpp>

namespace bilevel::models {

RowHypergradients::RowHypergradients(bilevel::Equilibrium<Vec>& problem, bilevel::problems::DataLoss& validation,
                                     const Vec& phi, const Vec& theta, const Vec& stored, PullBack pull_back,
                                     const std::string& adjoint)
    : validation_(validation),
      pull_back_(std::move(pull_back)),
      sensitivity_(problem),
      // Signs and sizes matter here, not digits.
      adjoint_(bilevel::make_adjoint_solver<Vec>(adjoint, {.relative_tolerance = 1e-6})),
      rows_(validation.row_count()),
      phi_size_(phi.size()),
      thetas_(theta.size()) {
  for (const auto& [first, last] : validation.ranges())
    for (Index i = first; i < last; ++i) places_.push_back(i);
  validation.slopes(stored, slopes_);
  sensitivity_.move_to(phi, theta);
  Mat hessian;
  if (sensitivity_.curvature().dense(hessian)) {
    factor_.compute(hessian);
    factored_ = factor_.info() == Eigen::Success;
  }
}

RowHypergradients::Mat RowHypergradients::right_sides(Index first, const Mat& mixtures) const {
  const auto& matrix = *validation_.samples().matrix;
  const Index c = validation_.outputs(), features = matrix.features();
  Mat stored = Mat::Zero((features + 1) * c, mixtures.cols());
  for (Index i = 0; i < mixtures.rows(); ++i) {
    const auto slope = slopes_.segment((first + i) * c, c);
    for (Index a = 0; a < mixtures.cols(); ++a) {
      const double share = mixtures(i, a);
      if (share == 0) continue;
      auto column = stored.col(a);
      matrix.for_each(places_[static_cast<std::size_t>(first + i)], [&](Index j, double x) {
        column.segment(j * c, c) += share * x * slope;
      });
      column.tail(c) += share * slope;
    }
  }
  Mat own(phi_size_, mixtures.cols());
  for (Index a = 0; a < mixtures.cols(); ++a) own.col(a) = pull_back_(stored.col(a));
  return own;
}

RowHypergradients::Mat RowHypergradients::of(Index first, const Mat& mixtures) {
  Mat out(thetas_, mixtures.cols());
  Vec column(thetas_);
  // Right sides of millions of coefficients a few at a time: 64 MiB.
  const Index some = std::clamp<Index>((Index{1} << 23) / phi_size_, 1, mixtures.cols());
  for (Index begin = 0; begin < mixtures.cols(); begin += some) {
    Mat sides = right_sides(first, mixtures.middleCols(begin, std::min(some, mixtures.cols() - begin)));
    if (factored_) factor_.solveInPlace(sides);
    for (Index a = 0; a < sides.cols(); ++a) {
      if (factored_) {
        sensitivity_.curvature().cross_times(sides.col(a), column);
        column = -column;
      } else {
        sensitivity_.pullback(sides.col(a), *adjoint_, column);
      }
      out.col(begin + a) = column;
    }
  }
  return out;
}

}  // namespace bilevel::models
