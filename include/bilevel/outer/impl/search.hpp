#pragma once

#include <bilevel/outer/search.hpp>
#include <bilevel/gradient/impl/settled_value.hpp>
#include <bilevel/outer/impl/solve.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

namespace detail {

/// What a search learns about one θ; it needs no vector type.
struct Evaluation {
  double value = unknown;
  std::function<Eigen::VectorXd()> phi;  ///< brings the settled state to the host, before the next evaluation
  double tolerance = unknown;
  Status status = Status::not_run;
  std::string message;
  Cost cost;
};

using Evaluate = std::function<Evaluation(const Eigen::VectorXd& theta)>;

Summary search(std::string_view name, const Evaluate& evaluate, const Eigen::VectorXd& start,
               const SearchOptions& options);

}  // namespace detail

template <Vector V>
Summary search(std::string_view name, SettledValue<V>& value, const V& start, const SearchOptions& options) {
  const V like = value.initial_theta();
  if (Space<V>::size(start) != Space<V>::size(like))
    throw InvalidInput(fmt::format("{}: the start has {} elements, the problem's theta has {}", name,
                                   Space<V>::size(start), Space<V>::size(like)));
  if (!all_finite(start)) throw InvalidInput(fmt::format("{}: the start theta holds NaN or infinity", name));
  V theta = Space<V>::zeros_like(start), phi;
  const auto evaluate = [&](const Eigen::VectorXd& host) {
    Space<V>::from_host(host.data(), theta);
    Settled<V> settled = value.at(theta);
    phi = std::move(settled.phi);
    return detail::Evaluation{settled.value,  [&phi] { return host_copy(phi); }, settled.tolerance,
                              settled.status, std::move(settled.message),        settled.cost};
  };
  return detail::search(name, evaluate, host_copy(start), options);
}

}  // namespace bilevel
