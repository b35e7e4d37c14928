#pragma once

#include <optional>
#include <utility>

#include <bilevel/outcome/cost.hpp>
#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/problem/holomorphic.hpp>

namespace bilevel {

/// Passes everything through to another problem and counts the calls. Base is Equilibrium<V> or
/// Problem<V>; the wrapped object must outlive this one.
template <Vector V, class Base>
class Counted : public Base {
 public:
  explicit Counted(Base& wrapped) : wrapped_(wrapped) {}

  Cost& cost() { return cost_; }

  V initial_phi() const override { return wrapped_.initial_phi(); }
  V initial_theta() const override { return wrapped_.initial_theta(); }
  void residual(const V& phi, const V& theta, V& out) override {
    ++cost_.inner_gradients;
    wrapped_.residual(phi, theta, out);
  }
  bool minimises() const override { return wrapped_.minimises(); }
  void derivatives(const V& phi, const V& theta, V& by_phi, V& by_theta) override {
    ++cost_.inner_gradients;
    wrapped_.derivatives(phi, theta, by_phi, by_theta);
  }
  double outer(const V& phi, const V& theta, Wanted<V> wanted) override {
    ++(wanted.phi || wanted.theta ? cost_.outer_gradients : cost_.outer_values);
    return wrapped_.outer(phi, theta, wanted);
  }
  void linearise(const V& phi, const V& theta, double beta, std::unique_ptr<Curvature<V>>& reuse) override {
    ++cost_.linearisations;
    if (!reuse) reuse = std::make_unique<CountedCurvature>(cost_);
    wrapped_.linearise(phi, theta, beta, static_cast<CountedCurvature&>(*reuse).wrapped);
  }
  Capabilities capabilities() const override { return wrapped_.capabilities(); }
  const StopToken* stop_token() const override { return wrapped_.stop_token(); }
  Constants constants(const V& theta, const V& center, double radius) override {
    return wrapped_.constants(theta, center, radius);
  }
  Rounding rounding(const V& phi, const V& theta, const V& pi) override {
    return wrapped_.rounding(phi, theta, pi);
  }
  std::string kink(const V& phi, const V& theta) override { return wrapped_.kink(phi, theta); }
  PhiConstraints phi_constraints() const override { return wrapped_.phi_constraints(); }

 protected:
  struct CountedCurvature final : Curvature<V> {
    explicit CountedCurvature(Cost& ledger) : cost(ledger) {}
    void times(const V& v, V& out) override {
      ++cost.hessian_products;
      wrapped->times(v, out);
    }
    void transpose_times(const V& v, V& out) override {
      ++cost.hessian_products;
      wrapped->transpose_times(v, out);
    }
    void cross_times(const V& v, V& out) override {
      ++cost.cross_products;
      wrapped->cross_times(v, out);
    }
    void cross_apply(const V& u, V& out) override {
      ++cost.cross_products;
      wrapped->cross_apply(u, out);
    }
    bool dense(Eigen::MatrixXd& out) override {
      const bool formed = wrapped->dense(out);
      cost.dense_hessians += formed;
      cost.dense_columns += formed ? out.cols() : 0;
      return formed;
    }
    long sparse(SparseMatrix& out) override {
      const long products = wrapped->sparse(out);
      cost.hessian_products += products;
      return products;
    }
    bool diagonal(V& out) override { return wrapped->diagonal(out); }
    double drawn_times(const V& v, V& out) override {
      const double share = wrapped->drawn_times(v, out);
      cost.drawn_products += share;
      return share;
    }
    bool precondition(const V& r, V& out) override { return wrapped->precondition(r, out); }
    double cross_norm() override { return wrapped->cross_norm(); }
    double least_eigenvalue() override { return wrapped->least_eigenvalue(); }
    double times_error(const V& v) override { return wrapped->times_error(v); }
    double cross_times_error(const V& v) override { return wrapped->cross_times_error(v); }

    std::unique_ptr<Curvature<V>> wrapped;
    Cost& cost;
  };

  Base& wrapped_;
  Cost cost_;
};

template <Vector V>
using CountedEquilibrium = Counted<V, Equilibrium<V>>;

/// Counts complex calls into a ledger: a complex derivative is one inner and one outer gradient. Both the
/// wrapped object and the ledger must outlive this one. Complex numbers are two real ones.
class CountedHolomorphic final : public Holomorphic {
 public:
  CountedHolomorphic(Holomorphic& wrapped, Cost& ledger) : wrapped_(wrapped), cost_(ledger) {}

  void complex_derivatives(const Eigen::VectorXcd& phi, const Eigen::VectorXd& theta,
                           std::complex<double> beta, ComplexWanted wanted) override {
    cost_.inner_gradients += 2;
    cost_.outer_gradients += 2;
    wrapped_.complex_derivatives(phi, theta, beta, wanted);
  }
  bool complex_hessian(const Eigen::VectorXcd& phi, const Eigen::VectorXd& theta, std::complex<double> beta,
                       Eigen::MatrixXcd& out) override {
    const bool formed = wrapped_.complex_hessian(phi, theta, beta, out);
    cost_.dense_hessians += formed;
    cost_.dense_columns += formed ? 2 * out.cols() : 0;
    return formed;
  }
  double margin(const Eigen::VectorXcd& phi, const Eigen::VectorXd& theta) override {
    return wrapped_.margin(phi, theta);
  }

 private:
  Holomorphic& wrapped_;
  Cost& cost_;
};

template <Vector V>
class CountedProblem final : public Counted<V, Problem<V>> {
 public:
  using Counted<V, Problem<V>>::Counted;
  double inner(const V& phi, const V& theta, Wanted<V> wanted) override {
    ++(wanted.phi || wanted.theta ? this->cost_.inner_gradients : this->cost_.inner_values);
    return this->wrapped_.inner(phi, theta, wanted);
  }
  Holomorphic* holomorphic() override {
    Holomorphic* const wrapped = this->wrapped_.holomorphic();
    if (!wrapped) return nullptr;
    return &holomorphic_.emplace(*wrapped, this->cost_);
  }

 private:
  std::optional<CountedHolomorphic> holomorphic_;
};

}  // namespace bilevel
