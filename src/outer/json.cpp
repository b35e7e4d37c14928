#include <bilevel/outer/json.hpp>

#include "outer/describe.hpp"

namespace bilevel {

Description described(const Certificate& c) {
  Description j;
  j["kind"] = name(c.kind);
  j["verdict"] = name(c.verdict);
  j["bound"] = finite_or_null(c.bound);
  j["theorem_bound"] = finite_or_null(c.theorem_bound);
  j["delta"] = finite_or_null(c.delta);
  j["delta_prime"] = finite_or_null(c.delta_prime);
  j["mu"] = finite_or_null(c.mu);
  j["mu_source"] = c.mu_source;
  j["smoothness"] = finite_or_null(c.smoothness);
  j["smoothness_source"] = c.smoothness_source;
  j["inner_residual"] = finite_or_null(c.inner_residual);
  j["adjoint_residual"] = finite_or_null(c.adjoint_residual);
  j["reason"] = c.reason;
  return j;
}

Description described(const Cost& c) {
  Description j;
  Cost::for_each_field([&](const char* name, auto field) { j[name] = c.*field; });
  j["gradient_equivalents"] = c.gradient_equivalents();
  return j;
}

Description described(const std::vector<HistoryEntry>& history) {
  Description list = Description::array();
  for (const auto& h : history)
    list.push_back({{"iteration", h.iteration},
                    {"accepted", h.accepted},
                    {"outer_value", finite_or_null(h.outer_value)},
                    {"gradient_norm", finite_or_null(h.gradient_norm)},
                    {"bound", finite_or_null(h.bound)},
                    {"kind", name(h.kind)},
                    {"verdict", name(h.verdict)},
                    {"inner_tolerance", finite_or_null(h.inner_tolerance)},
                    {"seconds", h.seconds}});
  return list;
}

std::string as_json(const Certificate& certificate) {
  return described(certificate).dump();
}
std::string as_json(const Cost& cost) {
  return described(cost).dump();
}
std::string as_json(const std::vector<HistoryEntry>& history) {
  return described(history).dump();
}

}  // namespace bilevel
