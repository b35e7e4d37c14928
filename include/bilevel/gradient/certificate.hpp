#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <bilevel/problem/equilibrium.hpp>

namespace bilevel {

class DenseFactor;

/// What stands behind an error bound: proven constants, measured ones, or nothing.
enum class Kind { none, estimated, rigorous };
/// May the gradient be used? See `Certificate::judge`.
enum class Verdict { untrusted, doubtful, trusted };

std::string_view name(Kind kind);
std::string_view name(Verdict verdict);

/// How far an outer gradient can be trusted, and why. Formulas: docs/certificates.md.
struct Certificate {
  Kind kind = Kind::none;
  Verdict verdict = Verdict::untrusted;
  double bound = std::numeric_limits<double>::infinity();  ///< ‖∇ − ∇̂‖ ≤ bound
  double theorem_bound = unknown;   ///< the paper's C(δ + δ′), where its constants exist and δ < μ/2ρ
  double inner_residual = unknown;  ///< ‖∂φ L_in(φ̂)‖ with its rounding error
  double adjoint_residual = unknown;  ///< ‖ĝ − π̂Ĥ‖ with its rounding error
  double delta = unknown;             ///< ‖φ̂ − φ*‖ ≤ δ
  double delta_prime = unknown;       ///< ‖π̂ − ĝĤ⁻¹‖ ≤ δ′
  double mu = unknown;                ///< the μ that the bound divides by
  double smoothness = unknown;        ///< L, where known or measured
  std::string mu_source = "unknown";
  std::string smoothness_source = "unknown";
  std::string reason = "not computed";
  double trust = usual_trust;  ///< the share of the gradient that a bound may be of, where it is trusted
  /// Why the verdict is doubtful at best whatever the bound: the second look (second_look.hpp) that disagreed
  /// with an estimated one, or the constraint that is hardly active. Empty where there is no such reason.
  std::string doubt;

  static constexpr double usual_trust = 0.1;

  /// Sets the verdict: trusted if bound ≤ max(trust·‖gradient‖, outer_tolerance), doubtful if
  /// bound ≤ max(‖gradient‖, outer_tolerance), untrusted otherwise. A gradient from a phase that
  /// did not converge (`settled` false), or with a doubt, is doubtful at best.
  void judge(double gradient_norm, double outer_tolerance, bool settled);

  /// visit(name, pointer to the member) for every field: how it is shown and kept follows from here.
  template <class Visit>
  static void for_each_field(Visit&& visit) {
    visit("kind", &Certificate::kind);
    visit("verdict", &Certificate::verdict);
    visit("bound", &Certificate::bound);
    visit("theorem_bound", &Certificate::theorem_bound);
    visit("delta", &Certificate::delta);
    visit("delta_prime", &Certificate::delta_prime);
    visit("mu", &Certificate::mu);
    visit("mu_source", &Certificate::mu_source);
    visit("smoothness", &Certificate::smoothness);
    visit("smoothness_source", &Certificate::smoothness_source);
    visit("inner_residual", &Certificate::inner_residual);
    visit("adjoint_residual", &Certificate::adjoint_residual);
    visit("reason", &Certificate::reason);
    visit("doubt", &Certificate::doubt);
    visit("trust", &Certificate::trust);
  }
};

/// Which elements of a gradient are known to `trust` of their own size: bound ≤ trust·|g_j|. The bound of the
/// norm holds for every element; those of them that are small beside it are not known although the gradient
/// is. None where the verdict is not "trusted".
std::vector<bool> trusted_elements(const Certificate& certificate, const Eigen::VectorXd& gradient);

/// A share of the gradient must lie in (0, 1].
void require_trust(Violations& v, double trust);

struct CertificateOptions {
  bool enabled = true;
  /// Largest |φ| for which the whole matrix J is formed to find its smallest eigenvalue when the problem
  /// does not know μ: O(|φ|³) work, 10⁷ operations at 200. Beyond, Lanczos estimates it.
  Index dense_limit = 200;
  /// Beyond that, up to this |φ|, and where the problem gives its whole matrix: λ_min is proven by factoring
  /// the matrix less a multiple of the identity, a few times |φ|³/3 operations. Then the problem's own lower
  /// bound; where that is of no use, the answer of the gradient is measured (response.hpp), then Lanczos:
  /// both only estimate. 0: nothing is measured where a bound is proven.
  Index factor_limit = 1000;
  /// Secant estimates of Lipschitz constants see few directions: they are multiplied by this.
  double secant_safety = 2;
  std::uint64_t seed = 1;
  /// The verdict is "trusted" where the bound is at most this share of the gradient's norm; in (0, 1]. A
  /// tenth is what a descent direction can do with; less where a gradient is the result itself.
  double trust = Certificate::usual_trust;

  Violations validate() const;
};

/// What the two phases left behind.
template <Vector V>
struct Phases {
  const V& theta;
  const V& phi;
  const V& pi;
  const V& inner_residual;  ///< ∂φ L_in(φ̂)
  double adjoint_residual;  ///< ‖ĝ − π̂Ĥ‖
  const V& outer_phi;       ///< ĝ
  const V& outer_theta;     ///< ∂θ L_out(φ̂)
  const V& gradient;
  double smallest_ritz = unknown;  ///< what phase 2 saw of the spectrum on its way
  double largest_ritz = unknown;
  const DenseFactor* factor = nullptr;  ///< of J or Jᵀ, where phase 2 has one
  /// A bound below this is as good as any; above it, a rigorous one is sharpened at the cost of a spectrum.
  double good_enough = 0;
};

/// Bounds the error of the gradient that two phases gave. `curvature` is J and χ at φ̂ with β = 0 (null
/// for a first-order problem).
template <Vector V>
Certificate certify(Equilibrium<V>& problem, Curvature<V>* curvature, const Phases<V>& phases,
                    const CertificateOptions& options);

}  // namespace bilevel
