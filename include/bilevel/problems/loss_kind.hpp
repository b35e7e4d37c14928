#pragma once

#include <complex>
#include <limits>
#include <span>
#include <string_view>

#include <bilevel/problems/loss.hpp>

namespace bilevel::problems {

/// What holds for a loss as a function of its margins m, whatever the label.
struct LossShape {
  double largest_curvature;    ///< sup ‖loss″‖; may be infinite, and then ‖loss‴‖ ≤ loss″
  double curvature_lipschitz;  ///< sup ‖loss‴‖; infinite where that is, 0 between kinks
  double largest_slope;        ///< sup ‖loss′‖
  bool kinked;                 ///< loss″ jumps: huber, squared hinge
  double decay;                ///< ‖loss‴‖ ≤ decay·loss″ along any direction
  double typical_curvature;    ///< of the size that loss″ has near the optimum; units are chosen by it
  double least_curvature = 0;  ///< inf loss″
};

/// An analytic loss at complex margins. Nothing is conjugated: see Holomorphic.
struct ContinuedLoss {
  using Complex = std::complex<double>;
  Complex (*slope)(Complex m, double y);
  Complex (*curvature)(Complex m, double y);
  double nearest_pole;  ///< its |Im m|; infinite where there is none
};

/// What is known of the labels of some rows.
struct LabelRange {
  double mean = 1, largest = 1;
};

/// Everything about a loss but its loop over the rows. Functions take a margin, a label and the parameter.
struct LossKind {
  kernels::Loss loss;
  std::string_view model;    ///< what a model that is trained by it is called: "poisson"
  std::string_view title;    ///< the same in a sentence: "a Poisson regression"
  std::string_view formula;  ///< of m_i and y_i
  std::string_view legend{};  ///< what other letters in it stand for; may be empty
  std::string_view wants;    ///< of a label, as the end of "poisson wants …"
  bool (*takes)(double label);
  /// How the targets of a model are to be read.
  enum class Target {
    number,    ///< a function of m − y: they may be shifted and scaled
    positive,  ///< the logarithm of their mean is the margin
    classes    ///< ±1
  } target;
  bool probable = false;  ///< the margin is the logarithm of the odds of +1
  /// The parameter's name, empty where there is none, what it says, its range, and its default where targets
  /// deviate by so much.
  std::string_view parameter{}, parameter_help{};
  double least_parameter = std::numeric_limits<double>::min();
  double largest_parameter = std::numeric_limits<double>::max();
  double (*usual_parameter)(double deviation) = [](double) { return 1.0; };

  double (*value)(double m, double y, double parameter);
  double (*slope)(double m, double y, double parameter);
  double (*distance_to_kink)(double m, double y, double parameter) = nullptr;  ///< null where there are none
  LossShape (*shape)(double parameter, const LabelRange& labels);
  const ContinuedLoss* continued = nullptr;  ///< null where the loss is not analytic or was not continued
  /// A bound of √(mean loss′²) by the mean of the losses, the largest loss″ (known where the shape does not
  /// bound it) and the labels.
  double (*slope_size)(double parameter, double mean, double largest_curvature, const LabelRange& labels);

  /// The mean of the target that a margin stands for.
  double predicted(double margin) const;
};

const LossKind& kind_of(kernels::Loss loss);
/// All, in the order of the enumeration.
std::span<const LossKind> loss_kinds();

}  // namespace bilevel::problems
