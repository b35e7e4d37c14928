#pragma once

#include <vector>

#include <Eigen/Cholesky>

#include <bilevel/networks/network_problem.hpp>

#include "energy_at.hpp"
#include "read_out.hpp"

namespace bilevel::networks {

/// W_kᵀW_k, which the Hessians of all samples share; empty but for predictive coding.
template <class T>
std::vector<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>> squares_of(const Architecture& a,
                                                                         const Couplings<T>& c) {
  std::vector<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>> squares(c.w.size());
  if (a.energy == Energy::predictive_coding)
    for (std::size_t i = 1; i < c.w.size(); ++i) squares[i] = c.w[i].transpose() * c.w[i];
  return squares;
}

/// ∂φ²(L_in + β·L_out) of the whole batch. A sample's rows lie apart: φ holds layer after layer.
template <class T>
void assemble(const Architecture& a, const Samples& samples, const EnergyAt<T>& energy, T beta,
              Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>& out) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
  const Index batch = samples.inputs.cols(), states = a.states();
  const auto squares = squares_of<T>(a, energy.couplings());
  Matrix h(states, states);
  out.setZero(states * batch, states * batch);
  std::vector<Index> row(static_cast<std::size_t>(states));
  for (Index n = 0; n < batch; ++n) {
    energy.sample_hessian(n, squares, h);
    add_cost_hessian<T>(a.read_out, energy.state(a.depth() - 1).col(n), beta, h);
    for (Index k = 1, at = 0, offset = 0; k <= a.depth(); ++k) {
      for (Index j = 0; j < a.width(k); ++j)
        row[static_cast<std::size_t>(at++)] = offset + n * a.width(k) + j;
      offset += a.width(k) * batch;
    }
    for (Index i = 0; i < states; ++i)
      for (Index j = 0; j < states; ++j)
        out(row[static_cast<std::size_t>(i)], row[static_cast<std::size_t>(j)]) =
            h(i, j) / static_cast<double>(batch);
  }
}

class NetworkCurvature final : public Curvature<Eigen::VectorXd> {
  using Vec = Eigen::VectorXd;

 public:
  NetworkCurvature(const Architecture& architecture, const Samples& samples)
      : a_(architecture),
        samples_(samples),
        energy_(architecture, samples.inputs),
        derivative_(architecture) {}

  void place(const Vec& phi, const Vec& theta, double beta);
  /// What goes sample by sample ends early where this says so; null: never.
  void obey(const StopToken* stop) { stop_ = stop; }
  void times(const Vec& v, Vec& out) override;
  void cross_times(const Vec& v, Vec& out) override;
  void cross_apply(const Vec& u, Vec& out) override;
  bool dense(Eigen::MatrixXd& out) override;
  bool diagonal(Vec& out) override;
  /// Exact: each sample's own Hessian by Cholesky; the identity for a sample whose Hessian is not positive
  /// definite, so that the products still show it.
  bool precondition(const Vec& r, Vec& out) override;
  double cross_norm() override;
  double least_eigenvalue() override;

 private:
  const StopToken* stop_ = nullptr;
  void factor();

  const Architecture& a_;
  const Samples& samples_;
  EnergyAt<double> energy_;
  Couplings<double> derivative_;
  double beta_ = 0;
  bool factored_ = false;
  Eigen::MatrixXd probabilities_;  // softmax of the outputs, where the cost needs it
  std::vector<Eigen::LLT<Eigen::MatrixXd>> factors_;
  Vec packed_;
};

}  // namespace bilevel::networks
