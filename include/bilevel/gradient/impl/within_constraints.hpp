#pragma once

#include <algorithm>

#include <bilevel/gradient/within_constraints.hpp>

namespace bilevel {

template <Vector V>
WithinConstraints<V>::WithinConstraints(Problem<V>& problem, InnerSolver<V>& inner, const Make& make)
    : face_(problem), following_(inner, face_), made_(make(face_, following_)) {}

template <Vector V>
Solution<V> WithinConstraints<V>::Following::solve(const V& theta, double beta, const V& start) {
  Solution<V> s = inner_.solve(theta, beta, start);
  if (Space<V>::size(s.phi) != Space<V>::size(start) || !all_finite(s.phi)) return s;
  face_.hold(s.phi, theta, beta);
  if (fault_.empty()) fault_ = face_.face().fault;
  const std::vector<Index>& active = face_.face().active;
  if (!first_) {
    first_ = active;
  } else if (active != *first_ && changed_.empty()) {
    std::vector<Index> differ;
    std::set_symmetric_difference(active.begin(), active.end(), first_->begin(), first_->end(),
                                  std::back_inserter(differ));
    changed_ = fmt::format("{} holds some of the states that are compared and not others",
                           face_.constraints().names[static_cast<std::size_t>(differ.front())]);
  }
  return s;
}

template <Vector V>
Estimate<V> WithinConstraints<V>::estimate(const V& theta, const Warm<V>& warm) {
  following_.begin();
  Estimate<V> e = made_->estimate(theta, warm);
  Certificate& c = e.certificate;
  const Face& face = face_.face();
  e.message += fmt::format("; {} of {} constraints on phi are active", face.active.size(),
                           face_.constraints().names.size());
  if (c.kind == Kind::none) return e;
  if (!following_.fault().empty()) {
    c.kind = Kind::none;
    c.bound = everywhere;
    c.reason = following_.fault();
    c.judge(norm(e.gradient), outer_tolerance_, false);
    return e;
  }
  if (c.kind == Kind::rigorous) {
    c.kind = Kind::estimated;
    c.reason += "; estimated: the constraints that are active";
  }
  std::string why = following_.changed();
  if (why.empty()) {
    const double distance = std::isfinite(c.delta) ? c.delta : 0;
    const double curvature =
        std::max(std::isfinite(c.smoothness) ? c.smoothness : 0, face_.typical_curvature());
    why = one_sided(face_.constraints(), face, norm(e.phi), curvature, distance);
  }
  if (!why.empty()) {
    c.doubt = "the gradient may be one-sided: " + why;
    c.reason += "; doubtful: " + c.doubt;
  }
  c.judge(norm(e.gradient), outer_tolerance_, succeeded(e.status));
  return e;
}

}  // namespace bilevel
