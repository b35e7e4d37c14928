#pragma once

#include "meta_gradient.hpp"

namespace bilevel::learning {

/// Numbers that set apart what is drawn for learning, for tests, for the probe and to be shown.
std::uint64_t training_number(std::uint64_t seed, long step);
std::uint64_t test_number(std::uint64_t seed, long batch);

struct Tested {
  Mean after, before;
  bool finite = true;
  bool cut = false;  ///< it was to end before all were judged
};
/// Adapts to so many test tasks and judges the answers: squared errors, or the share that is right. Ends where
/// `adapting` is told to.
Tested test_on(MetaGradient& adapting, const Tensor& theta, const TaskSource& source, long tasks,
               std::uint64_t seed, long first = 0);

/// A few test tasks, drawn for people.
std::vector<ShownTask> show(const SavedLearner& learner, const TaskSource& source, std::uint64_t seed);

/// The gradient that is used, on tasks of their own, beside implicit differentiation in double precision at
/// an inner state that is settled to its last digits.
GradientProbe probe(const Learner& learner, const MetaOptions& resolved, const TaskSource& source,
                    const Tensor& theta, const StopToken* stop);

}  // namespace bilevel::learning
