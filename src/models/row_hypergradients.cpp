#include "row_hypergradients.hpp"

#include <algorithm>
#include <utility>

#include <bilevel/adjoint/make_adjoint_solver.hpp>

namespace bilevel::models {

RowHypergradients::RowHypergradients(bilevel::Equilibrium<Vec>& problem, Index rows, const Vec& phi,
                                     const Vec& theta, Gradients gradients, const std::string& adjoint)
    : gradients_(std::move(gradients)),
      sensitivity_(problem),
      // Signs and sizes matter here, not digits.
      adjoint_(bilevel::make_adjoint_solver<Vec>(adjoint, {.relative_tolerance = 1e-6})),
      rows_(rows),
      phi_size_(phi.size()),
      thetas_(theta.size()) {
  sensitivity_.move_to(phi, theta);
  Mat hessian;
  if (sensitivity_.curvature().dense(hessian)) {
    factor_.compute(hessian);
    factored_ = factor_.info() == Eigen::Success;
  }
}

RowHypergradients::Gradients linear_gradients(bilevel::problems::RowLosses& loss, const Vec& stored,
                                              PullBack pull_back) {
  using Mat = RowHypergradients::Mat;
  std::vector<Index> places;  // of each row in the matrix
  for (const auto& [first, last] : loss.ranges())
    for (Index i = first; i < last; ++i) places.push_back(i);
  Vec all;
  loss.slopes(stored, all);
  return [&loss, places = std::move(places), slopes = std::move(all), pull_back = std::move(pull_back)](
             Index first, const Mat& mixtures) {
    const auto& matrix = *loss.samples().matrix;
    const Index c = loss.outputs(), features = matrix.features();
    Mat gradients = Mat::Zero((features + 1) * c, mixtures.cols());
    for (Index i = 0; i < mixtures.rows(); ++i) {
      const auto slope = slopes.segment((first + i) * c, c);
      for (Index a = 0; a < mixtures.cols(); ++a) {
        const double share = mixtures(i, a);
        if (share == 0) continue;
        auto column = gradients.col(a);
        matrix.for_each(places[static_cast<std::size_t>(first + i)],
                        [&](Index j, double x) { column.segment(j * c, c) += share * x * slope; });
        column.tail(c) += share * slope;
      }
    }
    Mat own;
    for (Index a = 0; a < mixtures.cols(); ++a) {
      const Vec each = pull_back(gradients.col(a));
      if (a == 0) own.resize(each.size(), mixtures.cols());
      own.col(a) = each;
    }
    return own;
  };
}

RowHypergradients::Mat RowHypergradients::of(Index first, const Mat& mixtures) {
  Mat out(thetas_, mixtures.cols());
  Vec column(thetas_);
  // Right sides of millions of coefficients a few at a time: 64 MiB.
  const Index some = std::clamp<Index>((Index{1} << 23) / phi_size_, 1, mixtures.cols());
  for (Index begin = 0; begin < mixtures.cols(); begin += some) {
    Mat sides = gradients_(first, mixtures.middleCols(begin, std::min(some, mixtures.cols() - begin)));
    if (factored_) factor_.solveInPlace(sides);
    for (Index a = 0; a < sides.cols(); ++a) {
      if (factored_) {
        sensitivity_.curvature().cross_times(sides.col(a), column);
        column = -column;
      } else {
        const Status status = sensitivity_.pullback(sides.col(a), *adjoint_, column).status;
        // Of a network at a saddle there is no such derivative: no opinion, instead of a wrong one.
        if (status == Status::negative_curvature) column.setConstant(unknown);
      }
      out.col(begin + a) = column;
    }
  }
  return out;
}

}  // namespace bilevel::models
