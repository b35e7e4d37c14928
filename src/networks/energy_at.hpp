#pragma once

#include <vector>

#include "couplings.hpp"
#include "units.hpp"

namespace bilevel::networks {

/// The energy of a batch at one φ, for real or complex states, with everything that its derivatives share.
/// Sums over the samples; whoever wants the mean divides. Layer k has index k − 1.
template <class T>
class EnergyAt {
 public:
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
  using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;

  EnergyAt(const Architecture& architecture, const Eigen::MatrixXd& inputs)
      : a_(architecture), batch_(inputs.cols()), x_(inputs.template cast<T>()), couplings_(architecture) {
    for (Index k = 1; k <= a_.depth(); ++k) {
      const Matrix zero = Matrix::Zero(a_.width(k), batch_);
      for (auto* each : {&u_, &s_, &slope_, &curvature_, &force_, &back_, &outside_, &moved_, &error_})
        each->push_back(zero);
      free_.push_back(Eigen::MatrixXd::Ones(a_.width(k), batch_));
      lower_.push_back(a_.lower(k));
      upper_.push_back(a_.upper(k));
    }
  }

  Index layers() const { return a_.depth(); }
  Index batch() const { return batch_; }
  const Couplings<T>& couplings() const { return couplings_; }
  const Matrix& state(Index i) const { return at(u_, i); }                  ///< u within its bounds
  const Matrix& activity(Index i) const { return i < 0 ? x_ : at(s_, i); }  ///< s_{k}, the input for i = −1
  const Matrix& slope(Index i) const { return at(slope_, i); }
  const Eigen::MatrixXd& free(Index i) const { return at(free_, i); }  ///< 0 for a unit that its bound holds
  const Eigen::VectorXd& lower(Index i) const { return at(lower_, i); }
  const Eigen::VectorXd& upper(Index i) const { return at(upper_, i); }
  /// Hopfield, resistive: D·u − I, the force of a linear unit. Predictive coding: the error ε.
  const Matrix& force(Index i) const { return at(force_, i); }

  void place(const Eigen::VectorXd& theta, const Vector& phi) {
    couplings_.set(a_, theta);
    for (Index i = 0, offset = 0; i < layers(); ++i) {
      const Eigen::Map<const Matrix> raw(phi.data() + offset, a_.width(i + 1), batch_);
      offset += raw.size();
      at(u_, i) = raw;
      if constexpr (std::is_floating_point_v<T>) {
        if (a_.bounded(i + 1))
          for (Index n = 0; n < batch_; ++n)
            at(u_, i).col(n) = raw.col(n).cwiseMax(at(lower_, i)).cwiseMin(at(upper_, i));
        at(outside_, i) = raw - at(u_, i);
      }
      activate(i);
    }
    predictive() ? find_errors() : find_forces();
  }

  /// φ of the feed-forward network: every layer is what the one below predicts.
  void forward_pass(const Eigen::VectorXd& theta, Vector& phi) {
    couplings_.set(a_, theta);
    for (Index i = 0, offset = 0; i < layers(); ++i) {
      at(u_, i).noalias() = at(couplings_.w, i) * activity(i - 1);
      at(u_, i).colwise() += at(couplings_.b, i);
      activate(i);
      phi.segment(offset, at(u_, i).size()) = at(u_, i).reshaped();
      offset += at(u_, i).size();
    }
  }

  /// ∂φ ΣE.
  void gradient(Vector& out) {
    for (Index i = 0, offset = 0; i < layers(); ++i) {
      Eigen::Map<Matrix> g(out.data() + offset, a_.width(i + 1), batch_);
      offset += g.size();
      if (predictive())
        g = at(force_, i) - at(slope_, i).cwiseProduct(at(back_, i));
      else
        g = at(slope_, i).cwiseProduct(at(force_, i)).cwiseProduct(at(free_, i).template cast<T>()) +
            at(outside_, i);
    }
  }

  /// ∂ΣE with respect to W, b and D.
  void parameters(Couplings<T>& out) const {
    for (Index i = 0; i < layers(); ++i) {
      const Matrix& post = predictive() ? at(force_, i) : at(s_, i);
      at(out.w, i).noalias() = -post * activity(i - 1).transpose();
      at(out.b, i) = -post.rowwise().sum();
      at(out.d, i) = T(0.5) * at(u_, i).cwiseProduct(at(u_, i)).rowwise().sum();
    }
  }

  /// out = ∂φ²ΣE · v.
  void times(const Vector& v, Vector& out) {
    move(v);
    for (Index i = 0, offset = 0; i < layers(); ++i) {
      const Index size = a_.width(i + 1) * batch_;
      const Eigen::Map<const Matrix> direction(v.data() + offset, a_.width(i + 1), batch_);
      Eigen::Map<Matrix> product(out.data() + offset, a_.width(i + 1), batch_);
      offset += size;
      if (predictive()) {
        product = at(error_, i);
        if (i + 1 < layers()) {
          product -= at(slope_, i).cwiseProduct(at(couplings_.w, i + 1).transpose() * at(error_, i + 1));
          product -= at(curvature_, i).cwiseProduct(direction).cwiseProduct(at(back_, i));
        }
        continue;
      }
      Matrix& drive = at(error_, i);
      drive.setZero();
      if (i > 0) drive.noalias() += at(couplings_.w, i) * at(moved_, i - 1);
      if (i + 1 < layers()) drive.noalias() += at(couplings_.w, i + 1).transpose() * at(moved_, i + 1);
      product = at(curvature_, i).cwiseProduct(at(force_, i)).cwiseProduct(direction) +
                at(couplings_.d, i).asDiagonal() * at(slope_, i).cwiseProduct(direction) -
                at(slope_, i).cwiseProduct(drive);
      const auto open = at(free_, i).template cast<T>();
      product = product.cwiseProduct(open) + direction - direction.cwiseProduct(open);
    }
  }

  /// Derivatives of vᵀ∂φΣE with respect to W, b and D.
  void cross_times(const Vector& v, Couplings<T>& out) {
    move(v);
    for (Index i = 0; i < layers(); ++i) {
      if (predictive()) {
        at(out.w, i).noalias() = -at(error_, i) * activity(i - 1).transpose();
        if (i > 0) at(out.w, i).noalias() -= at(force_, i) * at(moved_, i - 1).transpose();
        at(out.b, i) = -at(error_, i).rowwise().sum();
        at(out.d, i).setZero();
        continue;
      }
      at(out.w, i).noalias() = -at(moved_, i) * activity(i - 1).transpose();
      if (i > 0) at(out.w, i).noalias() -= at(s_, i) * at(moved_, i - 1).transpose();
      at(out.b, i) = -at(moved_, i).rowwise().sum();
      at(out.d, i) = at(moved_, i).cwiseProduct(at(u_, i)).rowwise().sum();
    }
  }

  /// out = the change of ∂φΣE when W, b and D change by `change`.
  void cross_apply(const Couplings<T>& change, Vector& out) {
    for (Index i = 0; i < layers(); ++i) {
      at(error_, i).noalias() = -at(change.w, i) * activity(i - 1);
      at(error_, i).colwise() -= at(change.b, i);
    }
    for (Index i = 0, offset = 0; i < layers(); ++i) {
      Eigen::Map<Matrix> product(out.data() + offset, a_.width(i + 1), batch_);
      offset += product.size();
      product = at(error_, i);
      if (predictive()) {
        if (i + 1 < layers())
          product -= at(slope_, i).cwiseProduct(at(couplings_.w, i + 1).transpose() * at(error_, i + 1) +
                                                at(change.w, i + 1).transpose() * at(force_, i + 1));
        continue;
      }
      product += at(change.d, i).asDiagonal() * at(u_, i);
      if (i + 1 < layers()) product -= at(change.w, i + 1).transpose() * at(s_, i + 1);
      product = product.cwiseProduct(at(slope_, i)).cwiseProduct(at(free_, i).template cast<T>());
    }
  }

  /// The diagonal of ∂φ²ΣE.
  void diagonal(Vector& out) const {
    for (Index i = 0, offset = 0; i < layers(); ++i) {
      Eigen::Map<Matrix> d(out.data() + offset, a_.width(i + 1), batch_);
      offset += d.size();
      if (!predictive()) {
        d = at(curvature_, i).cwiseProduct(at(force_, i)) + at(couplings_.d, i).asDiagonal() * at(slope_, i);
        const auto open = at(free_, i).template cast<T>();
        d = d.cwiseProduct(open) + Matrix::Ones(d.rows(), batch_) - open;
        continue;
      }
      d.setOnes();
      if (i + 1 == layers()) continue;
      const Vector sent = at(couplings_.w, i + 1).colwise().squaredNorm().transpose().template cast<T>();
      d += sent.asDiagonal() * at(slope_, i).cwiseProduct(at(slope_, i));
      d -= at(curvature_, i).cwiseProduct(at(back_, i));
    }
  }

  /// ∂φ²E of one sample, layer after layer. `squares` are W_kᵀW_k, for predictive coding.
  void sample_hessian(Index n, const std::vector<Matrix>& squares, Matrix& h) const {
    h.setZero();
    for (Index i = 0, offset = 0; i < layers(); offset += a_.width(++i)) {
      const Index units = a_.width(i + 1);
      const auto slope = at(slope_, i).col(n);
      if (predictive()) {
        h.diagonal().segment(offset, units).setOnes();
        if (i + 1 < layers()) {
          h.diagonal().segment(offset, units) -= at(curvature_, i).col(n).cwiseProduct(at(back_, i).col(n));
          h.block(offset, offset, units, units) +=
              slope.asDiagonal() * at(squares, i + 1) * slope.asDiagonal();
        }
      } else {
        h.diagonal().segment(offset, units) =
            at(curvature_, i).col(n).cwiseProduct(at(force_, i).col(n)) + slope.cwiseProduct(at(couplings_.d, i));
      }
      if (i == 0) continue;
      const Index below = a_.width(i);
      const auto previous = at(slope_, i - 1).col(n);
      auto lower = h.block(offset, offset - below, units, below);
      lower = -at(couplings_.w, i) * previous.asDiagonal();
      if (!predictive()) lower = slope.asDiagonal() * lower;
      h.block(offset - below, offset, below, units) = lower.transpose();
    }
    for (Index i = 0, offset = 0; i < layers(); offset += a_.width(++i))
      for (Index j = 0; a_.bounded(i + 1) && j < a_.width(i + 1); ++j)
        if (at(free_, i)(j, n) == 0) {
          h.row(offset + j).setZero();
          h.col(offset + j).setZero();
          h(offset + j, offset + j) = T(1);
        }
  }

 private:
  template <class Each>
  static Each& at(std::vector<Each>& layers, Index i) {
    return layers[static_cast<std::size_t>(i)];
  }
  template <class Each>
  static const Each& at(const std::vector<Each>& layers, Index i) {
    return layers[static_cast<std::size_t>(i)];
  }
  bool predictive() const { return a_.energy == Energy::predictive_coding; }

  void activate(Index i) {
    if (!a_.smooth() || i + 1 == layers()) {
      at(s_, i) = at(u_, i);
      at(slope_, i).setOnes();
      at(curvature_, i).setZero();
      return;
    }
    for (Index j = 0; j < at(u_, i).size(); ++j) {
      const UnitValue<T> unit = unit_at(a_.activation, at(u_, i).data()[j]);
      at(s_, i).data()[j] = unit.value;
      at(slope_, i).data()[j] = unit.slope;
      at(curvature_, i).data()[j] = unit.curvature;
    }
  }

  void find_forces() {
    for (Index i = 0; i < layers(); ++i) {
      at(force_, i) = at(couplings_.d, i).asDiagonal() * at(u_, i);
      at(force_, i).noalias() -= at(couplings_.w, i) * activity(i - 1);
      at(force_, i).colwise() -= at(couplings_.b, i);
      if (i + 1 < layers()) at(force_, i).noalias() -= at(couplings_.w, i + 1).transpose() * at(s_, i + 1);
      if constexpr (std::is_floating_point_v<T>) {
        if (!a_.bounded(i + 1)) continue;
        for (Index n = 0; n < batch_; ++n)
          for (Index j = 0; j < at(u_, i).rows(); ++j) {
            const double u = at(u_, i)(j, n), f = at(force_, i)(j, n), out = at(outside_, i)(j, n);
            const bool held =
                out != 0 || (u == at(lower_, i)[j] && f >= 0) || (u == at(upper_, i)[j] && f <= 0);
            at(free_, i)(j, n) = held ? 0 : 1;
          }
      }
    }
  }

  void find_errors() {
    for (Index i = 0; i < layers(); ++i) {
      at(force_, i) = at(u_, i);
      at(force_, i).noalias() -= at(couplings_.w, i) * activity(i - 1);
      at(force_, i).colwise() -= at(couplings_.b, i);
    }
    for (Index i = 0; i + 1 < layers(); ++i)
      at(back_, i).noalias() = at(couplings_.w, i + 1).transpose() * at(force_, i + 1);
  }

  /// moved = change of s along v (none where a bound holds), error = change of ε.
  void move(const Vector& v) {
    for (Index i = 0, offset = 0; i < layers(); ++i) {
      const Eigen::Map<const Matrix> direction(v.data() + offset, a_.width(i + 1), batch_);
      offset += direction.size();
      at(moved_, i) = at(slope_, i).cwiseProduct(direction).cwiseProduct(at(free_, i).template cast<T>());
      if (!predictive()) continue;
      at(error_, i) = direction;
      if (i > 0) at(error_, i).noalias() -= at(couplings_.w, i) * at(moved_, i - 1);
    }
  }

  const Architecture& a_;
  Index batch_;
  Matrix x_;
  Couplings<T> couplings_;
  std::vector<Matrix> u_, s_, slope_, curvature_, force_, back_, outside_, moved_, error_;
  std::vector<Eigen::MatrixXd> free_;
  std::vector<Eigen::VectorXd> lower_, upper_;
};

}  // namespace bilevel::networks
