#pragma once

#include <bilevel/bilevel.hpp>

#include "laboratory.hpp"

// The defects: each is the library's own part with one mistake.
namespace claims::planted {

/// The curvature with its products multiplied by what they should not be.
class WrongCurvature final : public bilevel::Curvature<Vec> {
 public:
  explicit WrongCurvature(Defect defect)
      : hessian_(defect == Defect::hessian_scale ? 0.5 : 1), cross_(defect == Defect::cross_sign ? -1 : 1) {}
  std::unique_ptr<bilevel::Curvature<Vec>> honest;

  void times(const Vec& v, Vec& out) override {
    honest->times(v, out);
    out *= hessian_;
  }
  void transpose_times(const Vec& v, Vec& out) override {
    honest->transpose_times(v, out);
    out *= hessian_;
  }
  void cross_times(const Vec& v, Vec& out) override {
    honest->cross_times(v, out);
    out *= cross_;
  }
  void cross_apply(const Vec& u, Vec& out) override {
    honest->cross_apply(u, out);
    out *= cross_;
  }
  bool dense(Mat& out) override {
    if (!honest->dense(out)) return false;
    out *= hessian_;
    return true;
  }
  bool diagonal(Vec& out) override {
    if (!honest->diagonal(out)) return false;
    out *= hessian_;
    return true;
  }
  bool precondition(const Vec& r, Vec& out) override { return honest->precondition(r, out); }
  double cross_norm() override { return honest->cross_norm(); }

 private:
  double hessian_, cross_;
};

/// What Curved<Problem> and Curved<Equilibrium> share.
template <class Base>
class Passing : public Base {
 public:
  Passing(Base& honest, Defect defect) : honest_(honest), defect_(defect) {}
  Vec initial_phi() const override { return honest_.initial_phi(); }
  Vec initial_theta() const override { return honest_.initial_theta(); }
  void residual(const Vec& phi, const Vec& theta, Vec& out) override { honest_.residual(phi, theta, out); }
  double outer(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) override {
    return honest_.outer(phi, theta, wanted);
  }
  void linearise(const Vec& phi, const Vec& theta, double beta,
                 std::unique_ptr<bilevel::Curvature<Vec>>& reuse) override {
    if (!reuse) reuse = std::make_unique<WrongCurvature>(defect_);
    honest_.linearise(phi, theta, beta, static_cast<WrongCurvature&>(*reuse).honest);
  }
  bilevel::Capabilities capabilities() const override { return honest_.capabilities(); }
  const bilevel::StopToken* stop_token() const override { return honest_.stop_token(); }
  bilevel::Constants constants(const Vec& theta, const Vec& center, double radius) override {
    return honest_.constants(theta, center, radius);
  }
  bilevel::Rounding rounding(const Vec& phi, const Vec& theta, const Vec& pi) override {
    return honest_.rounding(phi, theta, pi);
  }

 protected:
  Base& honest_;

 private:
  Defect defect_;
};

template <class Base>
class Curved;

template <>
class Curved<bilevel::Equilibrium<Vec>> final : public Passing<bilevel::Equilibrium<Vec>> {
 public:
  using Passing::Passing;
};

template <>
class Curved<bilevel::Problem<Vec>> final : public Passing<bilevel::Problem<Vec>> {
 public:
  using Passing::Passing;
  double inner(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) override {
    return honest_.inner(phi, theta, wanted);
  }
  bilevel::Holomorphic* holomorphic() override { return honest_.holomorphic(); }
};

/// An estimator of a problem with a wrong curvature, and that problem.
template <class Base>
class CurvedEstimator final : public bilevel::Forwarding<Vec> {
 public:
  template <class Make>
  CurvedEstimator(Base& honest, Defect defect, const Make& make)
      : Forwarding(nullptr), problem_(honest, defect) {
    wrapped_ = make(problem_);
  }

 private:
  Curved<Base> problem_;
};

/// π times a factor.
class ScaledAdjoint final : public bilevel::AdjointSolver<Vec> {
 public:
  ScaledAdjoint(std::unique_ptr<bilevel::AdjointSolver<Vec>> honest, double factor)
      : honest_(std::move(honest)), factor_(factor) {}
  std::string_view name() const override { return honest_->name(); }
  bilevel::LinearSolution<Vec> solve(bilevel::LinearOperator<Vec>& a, const Vec& b,
                                     const Vec* warm) override {
    bilevel::LinearSolution<Vec> solution = honest_->solve(a, b, warm);
    solution.x *= factor_;
    return solution;
  }
  void set_tolerance(double relative) override { honest_->set_tolerance(relative); }
  bool inherits() const override { return honest_->inherits(); }

 private:
  std::unique_ptr<bilevel::AdjointSolver<Vec>> honest_;
  double factor_;
};

/// A gradient times a factor.
class ScaledEstimator final : public bilevel::Forwarding<Vec> {
 public:
  ScaledEstimator(std::unique_ptr<bilevel::Estimator<Vec>> honest, double factor)
      : Forwarding(std::move(honest)), factor_(factor) {}
  bilevel::Estimate<Vec> estimate(const Vec& theta, const bilevel::Warm<Vec>& warm) override {
    bilevel::Estimate<Vec> e = Forwarding::estimate(theta, warm);
    e.gradient *= factor_;
    if (e.pi.size() > 0) e.pi *= factor_;
    return e;
  }

 private:
  double factor_;
};

/// Algorithm 2 with given weights, whatever they are.
class WeightedPropagation final : public bilevel::Estimator<Vec> {
 public:
  WeightedPropagation(bilevel::Problem<Vec>& problem, bilevel::InnerSolver<Vec>& inner, Weights weights,
                      double beta)
      : problem_(problem), inner_(inner), weights_(std::move(weights)), beta_(beta) {}
  std::string_view name() const override { return "ep-planted"; }
  bilevel::Estimate<Vec> estimate(const Vec& theta, const bilevel::Warm<Vec>& warm) override;
  void set_tolerances(double inner, double) override { inner_.set_tolerance(inner); }
  Vec initial_phi() const override { return problem_.initial_phi(); }
  Vec initial_theta() const override { return problem_.initial_theta(); }

 private:
  bilevel::Problem<Vec>& problem_;
  bilevel::InnerSolver<Vec>& inner_;
  Weights weights_;
  double beta_;
};

}  // namespace claims::planted
