// What the certifier asks of the Hessian or the Jacobian: its ends.
#pragma once

#include <bilevel/gradient/impl/certifier.hpp>

namespace bilevel::detail {

/// How far the matrix may be from the Hessian that is meant, in the 2-norm.
template <Vector V>
double Certifier<V>::matrix_error(Index size, double frobenius) {
  if (!std::isnan(rounding_.curvature)) return rounding_.curvature;
  doubt("rounding errors of the Hessian");
  return 20 * static_cast<double>(size) * unit_roundoff<V>() * frobenius;
}

template <Vector V>
double Certifier<V>::matrix_error(const Eigen::MatrixXd& matrix) {
  const double rounded = matrix_error(matrix.rows(), matrix.norm());
  if (!std::isnan(rounding_.curvature) || !problem_.capabilities().differenced) return rounded;
  // Half of what each pair of mirrored elements disagrees by is error, and what bends shows along a line.
  V direction = Space<V>::zeros_like(phases_.phi);
  Space<V>::random(options_.seed, direction);
  Space<V>::scale(std::sqrt(static_cast<double>(matrix.rows())) / norm(direction), direction);
  return rounded + std::max(curvature_->times_error(direction), (matrix - matrix.transpose()).norm());
}

/// Beyond `dense_limit` and to any size: λ_min of a Hessian with few entries, by its sparse factor.
template <Vector V>
Spectrum Certifier<V>::sparse_spectrum_here() {
  SparseMatrix matrix;
  if (!problem_.capabilities().sparse || curvature_->sparse(matrix) == 0) return {};
  formed_ = true;
  const Eigen::Map<const Eigen::VectorXd> values(matrix.values.data(),
                                                 static_cast<Index>(matrix.values.size()));
  if (!values.allFinite()) return {};
  return factored_spectrum(matrix, matrix_error(1, values.norm()));
}

template <Vector V>
Spectrum Certifier<V>::spectrum_here() {
  const bool symmetric = problem_.capabilities().symmetric;
  const Index n = Space<V>::size(phases_.phi);
  if (n <= options_.dense_limit) {
    result_.mu_source = result_.smoothness_source =
        symmetric ? "eigenvalues at the settled state" : "singular values at the settled state";
    const Eigen::MatrixXd matrix = dense_matrix(*curvature_, phases_.phi);
    formed_ = true;
    return dense_spectrum(matrix, symmetric, matrix_error(matrix));
  }
  if (!symmetric) return jacobian_spectrum();
  if (const Spectrum proven = sparse_spectrum_here(); proven.smallest > 0) {
    result_.mu_source = result_.smoothness_source = "a sparse factor of the shifted Hessian";
    return proven;
  }
  if (n <= options_.factor_limit) {
    Eigen::MatrixXd matrix;
    if (curvature_->dense(matrix)) {
      formed_ = true;
      const Spectrum proven = factored_spectrum(matrix, matrix_error(matrix));
      if (proven.smallest > 0) {
        result_.mu_source = result_.smoothness_source = "a Cholesky factor of the shifted Hessian";
        return proven;
      }
    }
  }
  from_problem_ = false;
  if (trust_problem_) {
    const double least = curvature_->least_eigenvalue();
    if (least > rounding_.curvature) {
      from_problem_ = true;
      result_.mu_source = "the problem's lower bound of the curvature";
      result_.smoothness_source = "unknown";
      return {least, unknown};
    }
  }
  // Nearer to what is asked for than any Ritz value, at the price of a few triangular solves.
  if (phases_.factor && !phases_.factor->indefinite())
    return from_factor(*phases_.factor, "the factor of phase 2");
  // As a second opinion it must not cost many times what the gradient did; and what has not converged soon
  // has a small end so crowded that other means are cheaper.
  const bool large = n > options_.factor_limit;
  Spectrum spectrum = lanczos_spectrum(*curvature_, phases_.phi, options_.seed,
                                       trust_problem_ && !large ? 30 : 3, problem_.stop_token());
  result_.mu_source = result_.smoothness_source = "Lanczos";
  if (std::isnan(spectrum.smallest) && large && trust_problem_) {
    spectrum = crowded_spectrum(*curvature_, phases_.phi, options_.seed, most_crowded_products,
                                problem_.stop_token());
    result_.mu_source = result_.smoothness_source = "Lanczos without restarts";
  }
  // Lanczos that did not converge has not seen the small end, and neither has phase 2: nothing can be said.
  if (std::isnan(spectrum.smallest)) {
    if (n > options_.factor_limit || stop_wanted(problem_.stop_token())) return spectrum;
    // It made more products than the matrix has columns.
    const Eigen::MatrixXd matrix = dense_matrix(*curvature_, phases_.phi);
    formed_ = true;
    result_.mu_source = result_.smoothness_source = "a Cholesky factor of the shifted Hessian";
    return factored_spectrum(0.5 * (matrix + matrix.transpose()),
                             matrix_error(matrix) + 0.5 * (matrix - matrix.transpose()).norm());
  }
  // A Ritz value of phase 2 is another upper bound of λ_min, and a lower one of λ_max, that costs nothing.
  if (phases_.smallest_ritz < spectrum.smallest) {
    spectrum.smallest = phases_.smallest_ritz;
    result_.mu_source = "Ritz value of phase 2";
  }
  if (phases_.largest_ritz > spectrum.largest) {
    spectrum.largest = phases_.largest_ritz;
    result_.smoothness_source = "Ritz value of phase 2";
  }
  doubt("the smallest eigenvalue");
  return spectrum;
}

template <Vector V>
Spectrum Certifier<V>::from_factor(const DenseFactor& factor, std::string source) {
  doubt(problem_.capabilities().symmetric ? "the smallest eigenvalue" : "the smallest singular value");
  result_.mu_source = std::move(source);
  result_.smoothness_source = "unknown";
  return {factor.smallest_singular_value(), unknown};
}

/// σ_min of a Jacobian too large for all its singular values: by a factor, phase 2's where it has one; beyond
/// what is factored by Lanczos on JᵀJ, and where that does not converge on (JᵀJ)⁻¹, solved for by GMRES.
template <Vector V>
Spectrum Certifier<V>::jacobian_spectrum() {
  const Index n = Space<V>::size(phases_.phi);
  if (phases_.factor) return from_factor(*phases_.factor, "the factor of phase 2");
  if (n <= options_.factor_limit) {
    Eigen::MatrixXd matrix = dense_matrix(*curvature_, phases_.phi);
    if (!matrix.allFinite()) return {};
    return from_factor(DenseFactor(std::move(matrix), false, unit_roundoff<V>()), "a factor of the Jacobian");
  }
  V between = Space<V>::zeros_like(phases_.phi);
  const auto root = [](double square) { return std::sqrt(std::max(square, 0.0)); };
  doubt("the smallest singular value");
  result_.mu_source = result_.smoothness_source = "Lanczos on JᵀJ";
  const Spectrum squares = lanczos_spectrum<V>(
      [&](const V& x, V& out) {
        if (stop_wanted(problem_.stop_token())) return Space<V>::fill(unknown, out);
        curvature_->times(x, between);
        curvature_->transpose_times(between, out);
      },
      phases_.phi, options_.seed, 3);
  if (!std::isnan(squares.smallest)) return {root(squares.smallest), root(squares.largest)};

  result_.mu_source = "Lanczos on the inverse of JᵀJ";
  result_.smoothness_source = "unknown";
  Gmres<V> solver({{.relative_tolerance = 1e-6, .max_iterations = 500}});
  CurvatureOperator<V> forth(*curvature_, false, false, nullptr, problem_.stop_token());
  CurvatureOperator<V> back(*curvature_, false, true, nullptr, problem_.stop_token());
  V start = Space<V>::zeros_like(phases_.phi);
  Space<V>::random(options_.seed, start);
  const RitzEnds inverse = Lanczos<V>(
                               [&](const V& x, V& out) {
                                 const auto fail = [&] { Space<V>::fill(unknown, out); };
                                 const LinearSolution<V> first = solver.solve(back, x, nullptr);
                                 if (!succeeded(first.status)) return fail();
                                 const LinearSolution<V> second = solver.solve(forth, first.x, nullptr);
                                 if (!succeeded(second.status)) return fail();
                                 Space<V>::copy(second.x, out);
                               },
                               start, {.basis = 12, .sweeps = 1})
                               .run();
  return {1 / root(inverse.largest), unknown};
}

}  // namespace bilevel::detail
