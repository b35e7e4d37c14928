#pragma once

#include <optional>

#include <bilevel/inner/nudged.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// μ and L of L_in + β·L_out, for the steps that choose their own length from them.
template <Vector V>
class CurvatureScale {
 public:
  /// Asks the problem for its constants. Throws InvalidInput where a length is `needed` and there is
  /// neither an L nor a curvature to measure it on.
  void check(Nudged<V>& nudged, const V& phi, bool needed, std::string_view who);
  /// Where L is not known everywhere, measures it at phi by the power method.
  std::optional<Stop> measure(Nudged<V>& nudged, const V& phi);

  double smoothness() const { return smoothness_; }
  /// NaN unless μ > 0 is known.
  double mu() const { return mu_; }
  bool quadratic() const { return quadratic_; }
  std::string_view source() const { return source_; }
  std::size_t bytes() const { return bytes_; }

 private:
  double smoothness_ = unknown, mu_ = unknown;
  bool quadratic_ = false;
  std::string_view source_;
  std::size_t bytes_ = 0;
};

extern template class CurvatureScale<Eigen::VectorXd>;
extern template class CurvatureScale<Eigen::VectorXf>;

}  // namespace bilevel
