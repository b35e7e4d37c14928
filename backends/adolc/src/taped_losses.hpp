#pragma once

#include <optional>

#include <bilevel/adolc/taped_problem.hpp>
#include <bilevel/space/sparse_cholesky.hpp>

#include "taped_function.hpp"

namespace bilevel::adolc {

/// What a taped problem or equilibrium holds, in a place of its own, where curvatures find it.
class TapedLosses {
  using Vec = Eigen::VectorXd;

 public:
  TapedLosses(Recordable inner, Recordable outer, const TapedOptions& options, Statements statements);
  /// The same functions, with tapes to be made.
  TapedLosses(const TapedLosses& other)
      : TapedLosses(other.first, other.second, other.options, other.statements) {}

  /// (φ, θ) in one piece, valid until the next call.
  const double* joined(const Vec& phi, const Vec& theta);
  /// A loss, with the derivatives that are wanted.
  double loss(TapedFunction& f, const Vec& phi, const Vec& theta, Wanted<Vec> wanted);
  TapeReport report() const;
  /// Whether derivatives at (φ, θ) are one-sided, and of what; empty where they are not.
  std::string kink(const Vec& phi, const Vec& theta);
  /// The colours of ∂φ²L_in, or of ∂φ²(L_in + L_out), around x; null where it has many entries.
  const Coloring* coloring(const double* x, bool with_outer);
  /// Whether ∂φ²L_in has few entries where solves start. Looked for once: it may take a new recording there,
  /// and another one of those who are elsewhere.
  bool sparse_at_start();

  Recordable first, second;  // as they were given
  TapedOptions options;
  Statements statements;
  const bool residual;
  const Index phis, thetas;
  TapedFunction inner, outer;

 private:
  struct Found {
    long recordings = -1;  // of the tapes that it was found on
    Coloring coloring;
  };
  Coloring find_coloring(const double* x, bool with_outer);

  Vec x_, gradient_;
  Found alone_, with_outer_;
  std::optional<bool> sparse_;
};

/// Below, a dense factor is as fast as a sparse one.
inline constexpr Index smallest_sparse = 100;

/// Curvature by sweeps over the tapes at a point.
class TapedCurvature final : public Curvature<Eigen::VectorXd> {
  using Vec = Eigen::VectorXd;

 public:
  void move_to(std::shared_ptr<TapedLosses> losses, const Vec& phi, const Vec& theta, double beta);

  void times(const Vec& v, Vec& out) override;
  void transpose_times(const Vec& v, Vec& out) override;
  void cross_times(const Vec& v, Vec& out) override;
  void cross_apply(const Vec& u, Vec& out) override;
  bool dense(Eigen::MatrixXd& out) override;
  long sparse(SparseMatrix& out) override;
  bool precondition(const Vec& r, Vec& out) override;

 private:
  /// Sees to it that the tapes are the losses around x_.
  void fit();
  /// both_ = (J, χ)ᵀv, in one sweep; what the last call has left is taken where v is the same.
  void sweep(const Vec& v);
  /// out = J·v + χ·u.
  void forward(Vec& out);
  /// both_ = ∂²(L_in + β·L_out)·direction_.
  void products_of_losses();
  /// matrix_ by a product for each colour; how many these were, 0 where H has many entries.
  long form();

  std::shared_ptr<TapedLosses> losses_;
  double beta_ = 0;
  long fitted_ = -1;  // how often the losses had been recorded by then
  Vec x_, direction_, both_, part_, swept_;
  bool has_swept_ = false;
  SparseMatrix matrix_;
  SparseCholesky factor_;
  bool formed_ = false, factored_ = false, positive_ = false;
};

}  // namespace bilevel::adolc
