#pragma once

#include <vector>

#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/problems/data_loss.hpp>
#include <bilevel/problems/softmax_kernels.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel::problems {

/// Data hyper-cleaning: one weight to learn for each training row, judged by rows that are trusted,
///   L_in  = 1/n Σ_i σ(θ_i)·ℓ_i(φ) + ½λ‖φ‖²,      L_out = mean of ℓ over the trusted rows, no penalty
/// with ℓ_i = log Σ_c exp(m_ic) − m_i,y_i and m_i = x_i·φ (softmax, two classes included). φ holds one number
/// for each feature and class, the classes of a feature next to each other, the intercepts last. All of it is
/// penalised, the intercepts too: then L_in is λ-strongly convex, whatever the weights and however many
/// features are constant.
class SampleWeights final : public Problem<Eigen::VectorXd> {
 public:
  using Vec = Eigen::VectorXd;
  using Mat = Eigen::MatrixXd;

  /// `samples` gives the matrix and a class, 0 … classes − 1, for each of its rows. Throws InvalidInput for
  /// ranges, classes or a λ that do not fit, and for samples with weights or offsets.
  SampleWeights(Samples samples, Index classes, RowRange training, RowRange trusted, double lambda);
  SampleWeights(const SampleWeights&) = delete;
  SampleWeights& operator=(const SampleWeights&) = delete;
  ~SampleWeights() override;

  Vec initial_phi() const override { return Vec::Zero(size_); }
  Vec initial_theta() const override { return Vec::Zero(training_.rows); }
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override;
  double outer(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override;
  void linearise(const Vec& phi, const Vec& theta, double beta,
                 std::unique_ptr<Curvature<Vec>>& reuse) override;
  Constants constants(const Vec& theta, const Vec& center, double radius) override;
  Rounding rounding(const Vec& phi, const Vec& theta, const Vec& pi) override;

  Index classes() const { return classes_; }
  double lambda() const { return lambda_; }
  /// Whether the Hessian is formed as a whole where it is asked for.
  bool forms_hessian() const { return size_ <= formed_hessian && !samples_.matrix->sparse(); }

  static constexpr Index formed_hessian = 700;

 private:
  friend struct SampleWeightsCurvature;

  /// Some rows: where they are, and how large.
  struct SoftmaxRows {
    SoftmaxRows(const Samples& samples, Index classes, RowRange range);

    double value(const Vec& phi, const double* weights, double* gradient, double* probabilities);
    void product(const Vec& probabilities, const double* weights, const Vec& v, Vec& out);
    void diagonal(const Vec& probabilities, const double* weights, Vec& out);
    /// out_i = (p_i − e_y)·(x_i·v)
    void dots(const Vec& probabilities, const Vec& v, Vec& out);
    void margins(const Vec& phi, Vec& out);

    const int* labels;
    Index classes, rows;
    RowRange range;
    RowPass<kernels::SoftmaxWorkspace, kernels::SoftmaxWorkspace> pass;
    double margin_depth, sum_depth;  ///< of its workspace

    Vec squares;               ///< ≥ ‖x_i‖², the one of the intercept included
    double mean_square = 0;    ///< ≥ mean ‖x_i‖²
    double second_moment = 0;  ///< ≥ ‖mean x_i x_iᵀ‖
    double largest = 0;        ///< ≥ max ‖x_i‖
  };

  void set_weights(const Vec& theta);
  /// p at φ on the training rows; free where the inner gradient was last asked for there.
  const Vec& probabilities_at(const Vec& phi);
  double cross_lipschitz() const;
  double cross_energy(const Vec& center, double radius);
  static double gradient_rounding(const SoftmaxRows& part, double norm_phi);

  Samples samples_;
  Index classes_;
  double lambda_;
  SoftmaxRows training_, trusted_;
  Index size_;
  double inverse_rows_, inverse_trusted_;
  Vec theta_, weights_, slopes_;  ///< θ, σ(θ_i) and σ′(θ_i)
  Vec probabilities_, point_;     ///< at φ = point_, where that is not empty
  Vec scratch_, rows_scratch_;
};

}  // namespace bilevel::problems
