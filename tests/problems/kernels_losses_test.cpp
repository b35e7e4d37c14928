// Every loss on dense rows, with weights and offsets.

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include <bilevel/problems/loss_kind.hpp>

#include "kernels_on.hpp"
#include "loss_reference.hpp"

namespace bilevel::problems {
namespace kernels_losses_test {

using kernels::Loss;
using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

constexpr std::uint64_t seed = 20250707;
constexpr Loss every_loss[] = {Loss::squared,       Loss::logistic, Loss::poisson,          Loss::huber,
                               Loss::squared_hinge, Loss::gamma,    Loss::negative_binomial};
static_assert(std::size(every_loss) == kernels::losses);

class LossesOn : public KernelsOn {};

TEST_P(LossesOn, SumsAgreeWithNaiveLoopsWithAndWithoutWeightsAndOffsets) {
  std::mt19937_64 engine(seed);
  for (const auto& [n, d] : {std::pair<Index, Index>{1, 1},
                             {1, 9},
                             {3, 8},
                             {17, 1},
                             {33, 22},
                             {64, 7},
                             {101, 40},
                             {1003, 22},
                             {4099, 5},
                             {70, 200}})
    for (Loss loss : every_loss)
      for (int given = 0; given < 4; ++given) {
        SCOPED_TRACE(testing::Message() << n << " x " << d << ", loss " << static_cast<int>(loss)
                                        << ", given " << given << ", seed " << seed);
        const Mat values = gaussian(n, d, engine);
        const PaddedMatrix x(values);
        const RandomRows data(loss, n, engine);
        const Vec phi = gaussian(d, 1, engine) / std::sqrt(static_cast<double>(d));
        const kernels::Rows rows{data.y.data(), given & 1 ? data.w.data() : nullptr,
                                 given & 2 ? data.o.data() : nullptr, 0.7, std::log(0.7)};
        kernels::Workspace workspace(x.view());
        Vec gradient = Vec::Constant(d, std::nan("")), curvature = Vec::Constant(n, std::nan("")), alone = curvature,
            margins = curvature;
        const double value = kernels::value_with_gradient(loss, x.view(), phi.data(), rows, gradient.data(),
                                                          curvature.data(), workspace);
        EXPECT_EQ(value, kernels::value_with_gradient(loss, x.view(), phi.data(), rows, nullptr, nullptr,
                                                      workspace));
        kernels::curvature(loss, x.view(), phi.data(), rows, alone.data(), workspace);
        EXPECT_EQ(curvature, alone);
        ExpectedSums(loss, values, phi, rows).compare(value, gradient, curvature);
        kernels::margins(x.view(), phi.data(), rows.offsets, margins.data(), workspace);
        Vec expected = values * phi;
        if (rows.offsets) expected += data.o;
        EXPECT_LE((margins - expected).lpNorm<Eigen::Infinity>(), 1e-14 * (10 + static_cast<double>(d)));
      }
}

double value_of(Loss loss, double margin, double label, double threshold, double& slope, double& curvature) {
  const Mat one = Mat::Constant(1, 1, 1.0);
  const PaddedMatrix x(one);
  kernels::Workspace workspace(x.view());
  return kernels::value_with_gradient(loss, x.view(), &margin,
                                      {&label, nullptr, nullptr, threshold, std::log(threshold)}, &slope,
                                      &curvature, workspace);
}

TEST_P(LossesOn, SlopesAndCurvaturesAreDifferencesOfWhatTheyDifferentiate) {
  const double h = 1e-5;
  for (Loss loss : every_loss)
    for (double label : {-1.0, 1.0})
      for (double margin : {-3.3, -1.2, -0.31, 0.17, 0.83, 2.9}) {
        if (!kind_of(loss).takes(label)) continue;
        SCOPED_TRACE(testing::Message() << static_cast<int>(loss) << " at " << margin << ", label " << label);
        double slope, curvature, up, down, unused;
        value_of(loss, margin, label, 0.5, slope, curvature);
        const double above = value_of(loss, margin + h, label, 0.5, up, unused);
        const double below = value_of(loss, margin - h, label, 0.5, down, unused);
        EXPECT_NEAR(slope, (above - below) / (2 * h), 1e-8);
        EXPECT_NEAR(curvature, (up - down) / (2 * h), 1e-8);
      }
}

TEST_P(LossesOn, ExtremeMarginsGiveNoNaN) {
  double slope, curvature;
  for (double margin : {-1e300, -800.0, 800.0, 1e300})
    for (Loss loss : every_loss) {
      if (loss == Loss::squared) continue;
      const double value = value_of(loss, margin, 1, 1, slope, curvature);
      EXPECT_FALSE(std::isnan(value) || std::isnan(slope) || std::isnan(curvature))
          << static_cast<int>(loss) << " at " << margin;
    }
  EXPECT_EQ(value_of(Loss::poisson, 800, 1, 1, slope, curvature), std::numeric_limits<double>::infinity());
  EXPECT_EQ(value_of(Loss::huber, 1e300, 0, 2, slope, curvature), 2e300);
  EXPECT_EQ(slope, 2);
  EXPECT_EQ(value_of(Loss::squared_hinge, 1, 1, 1, slope, curvature), 0);
  EXPECT_EQ(curvature, 0);
}

TEST_P(LossesOn, ARowOfWeightZeroAddsNothingEvenWhereItsLossIsInfinite) {
  Mat values(3, 1);
  values << 1, 1000, 2;
  const PaddedMatrix x(values);
  kernels::Workspace workspace(x.view());
  const Vec labels = Vec::Ones(3), weights = Vec{{1, 0, 1}};
  const double phi = 1;
  double gradient;
  Vec curvature(3);
  const double value = kernels::value_with_gradient(
      Loss::poisson, x.view(), &phi, {labels.data(), weights.data()}, &gradient, curvature.data(), workspace);
  EXPECT_NEAR(value, std::exp(1) - 1 + std::exp(2) - 2, 1e-14 * value);
  EXPECT_NEAR(gradient, std::exp(1) - 1 + 2 * (std::exp(2) - 1), 1e-13 * gradient);
  EXPECT_EQ(curvature[1], 0);
}

INSTANTIATE_TEST_SUITE_P(Targets, LossesOn, every_target(), name_of_target);

}  // namespace kernels_losses_test
}  // namespace bilevel::problems
