#pragma once

#include <memory>

#include <bilevel/adolc/recordable.hpp>

namespace bilevel::adolc {

/// What a struct states of its losses beside them; empty where it states nothing.
struct Statements {
  std::function<Constants(const Eigen::VectorXd& theta, const Eigen::VectorXd& center, double radius)>
      constants = {};
  std::function<Rounding(const Eigen::VectorXd& phi, const Eigen::VectorXd& theta, const Eigen::VectorXd& pi)>
      rounding = {};
  std::function<PhiConstraints()> phi_constraints = {};
};

class TapedLosses;

/// Losses written as functions: values by the functions themselves, derivatives by their tapes. A copy has
/// tapes of its own. Objects may be used in several threads, each in one; ADOL-C lets one of them at a time.
template <class Base>
class TapedOf : public Base {
  using Vec = Eigen::VectorXd;

 public:
  TapedOf(Recordable inner, Recordable outer, const TapedOptions& options, Statements statements);
  TapedOf(const TapedOf& other);
  TapedOf& operator=(const TapedOf& other);
  TapedOf(TapedOf&&) noexcept;
  TapedOf& operator=(TapedOf&&) noexcept;
  ~TapedOf() override;

  Vec initial_phi() const override;
  Vec initial_theta() const override;
  double outer(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override;
  void linearise(const Vec& phi, const Vec& theta, double beta,
                 std::unique_ptr<Curvature<Vec>>& reuse) override;
  Constants constants(const Vec& theta, const Vec& center, double radius) override;
  Rounding rounding(const Vec& phi, const Vec& theta, const Vec& pi) override;

  std::string kink(const Vec& phi, const Vec& theta) override;
  PhiConstraints phi_constraints() const override;

  /// What happened to the tapes so far.
  TapeReport tapes() const;

 protected:
  std::shared_ptr<TapedLosses> losses_;
};

extern template class TapedOf<Problem<Eigen::VectorXd>>;
extern template class TapedOf<Equilibrium<Eigen::VectorXd>>;

/// Two losses written as functions, as a problem.
class TapedProblem final : public TapedOf<Problem<Eigen::VectorXd>> {
  using Vec = Eigen::VectorXd;

 public:
  TapedProblem(Recordable inner, Recordable outer, const TapedOptions& options, Statements statements = {});
  Capabilities capabilities() const override;
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override;
};

/// A residual and an outer loss written as functions, as an equilibrium.
class TapedEquilibrium final : public TapedOf<Equilibrium<Eigen::VectorXd>> {
  using Vec = Eigen::VectorXd;

 public:
  TapedEquilibrium(Recordable residual, Recordable outer, const TapedOptions& options,
                   Statements statements = {});
  void residual(const Vec& phi, const Vec& theta, Vec& out) override;
  Capabilities capabilities() const override { return {.curvature = true, .symmetric = false}; }
};

}  // namespace bilevel::adolc
