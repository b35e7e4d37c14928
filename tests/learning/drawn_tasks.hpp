#pragma once

#include <bilevel/learning/learner.hpp>

namespace bilevel::learning_testing {

using at::Tensor;
using learning::TaskForm;
using learning::Tasks;

inline Tensor drawn(std::vector<std::int64_t> shape, std::uint64_t seed) {
  Tensor x = at::zeros(shape, at::kDouble);
  Space<Tensor>::random(seed, x);
  return x;
}

/// Tasks of this form in double precision; classes take turns.
inline Tasks drawn_tasks(const TaskForm& form, long count, std::uint64_t seed) {
  const auto x = [&](long rows, std::uint64_t own) {
    std::vector<std::int64_t> shape{count, rows};
    shape.insert(shape.end(), form.input.begin(), form.input.end());
    return drawn(shape, 10 * seed + own);
  };
  const auto y = [&](long rows, std::uint64_t own) {
    if (!form.classes) return drawn({count, rows, form.outputs}, 10 * seed + own);
    const Tensor turns = at::arange(rows, at::kLong).remainder(form.outputs);
    return at::one_hot(turns, form.outputs).to(at::kDouble).unsqueeze(0).repeat({count, 1, 1});
  };
  return {x(form.support, 1), y(form.support, 2), x(form.query, 3), y(form.query, 4)};
}

}  // namespace bilevel::learning_testing
