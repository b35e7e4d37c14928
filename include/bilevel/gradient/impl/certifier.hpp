#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <bilevel/adjoint/impl/dense_factor.hpp>
#include <bilevel/adjoint/impl/gmres.hpp>
#include <bilevel/gradient/certificate.hpp>
#include <bilevel/gradient/impl/product_look.hpp>
#include <bilevel/gradient/impl/spectrum.hpp>
#include <bilevel/gradient/sensitivity.hpp>
#include <bilevel/problem/gamma.hpp>

namespace bilevel {
namespace detail {

/// Beyond, the forty vectors that Lanczos keeps are more than the data, as a rule, and it does not converge.
constexpr Index second_opinion_limit = 20000;
/// Of Lanczos' method without restarts: enough for a condition number of 10⁴.
constexpr long most_crowded_products = 3000;

/// In response.hpp, which whoever solves for adjoints includes.
template <Vector V>
double response(Equilibrium<V>& problem, Curvature<V>& curvature, const Phases<V>& phases,
                const Rounding& rounding, std::uint64_t seed);

/// One certificate in the making. With r = ∂φL_in(φ̂), s = ĝ − π̂Ĥ (both with their rounding errors):
///
///   δ = ‖r‖/μ  where L_in is μ-strongly convex, else Newton–Kantorovich around φ̂
///   ‖∇ − ∇̂‖ ≤ M_out δ + ‖π̂‖ρ_χ δ + (‖χ̂‖ + ρ_χ δ)·(‖s‖ + (L_out + ‖π̂‖ρ_H) δ)/μ + rounding
template <Vector V>
class Certifier {
 public:
  Certifier(Equilibrium<V>& problem, Curvature<V>* curvature, const Phases<V>& phases,
            const CertificateOptions& options)
      : problem_(problem), curvature_(curvature), phases_(phases), options_(options) {}

  Certificate run() {
    bound();
    look_at_products();
    return result_;
  }

 private:
  void bound();
  void measure_residuals();
  bool bound_globally();
  bool bound_locally();
  void sharpen();
  Spectrum spectrum_here();
  double matrix_error(Index size, double frobenius);
  double matrix_error(const Eigen::MatrixXd& matrix);
  Spectrum sparse_spectrum_here();
  Spectrum from_factor(const DenseFactor& factor, std::string source);
  Spectrum jacobian_spectrum();
  void estimate_missing_constants(double distance);
  double cross_norm_here();
  void assemble();
  double energy_error() const;
  void compare_outer();
  void measure_response();
  void look_at_products();

  /// What is only estimated, and therefore keeps the certificate from being rigorous.
  void doubt(std::string what) {
    if (std::find(doubts_.begin(), doubts_.end(), what) == doubts_.end()) doubts_.push_back(std::move(what));
  }
  bool refuse(std::string why) {
    result_.reason = std::move(why);
    return false;
  }

  Equilibrium<V>& problem_;
  Curvature<V>* curvature_;
  const Phases<V>& phases_;
  CertificateOptions options_;
  Certificate result_;
  Constants constants_;
  Rounding rounding_;
  double pi_norm_ = 0, outer_norm_ = 0, cross_norm_ = unknown;
  double relative_outer_ = unknown;                   // ω of compare_outer
  bool trust_problem_ = true, from_problem_ = false;  // Curvature::least_eigenvalue
  bool formed_ = false;                               // the Hessian was, and has said what it can
  bool rounding_known_ = true;
  std::vector<std::string> doubts_;
};

}  // namespace detail
}  // namespace bilevel
