#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "equilibrium.hpp"

// What came out, as one result in JSON with the page that shows it.

namespace equilibrium {

inline double mebibytes(const Json& bytes) {
  return bytes.get<double>() / (1 << 20);
}

/// Whether 100 steps take no more than 5 % more memory than 10.
inline bool flat(const Json& memory, const char* which) {
  return memory.back()[which].get<double>() < 1.05 * memory.front()[which].get<double>();
}

inline std::string name_of(const Json& run) {
  return run["depth"] == 0 ? "equilibrium" : fmt::format("{} steps unrolled", run["depth"].get<long>());
}

/// A chart over the epochs: of each run where `fields` names one field, else of the first run's fields.
inline Json chart(const std::vector<Json>& runs, const char* title, const char* unit,
                  const std::vector<std::pair<const char*, const char*>>& fields, bool log = false) {
  std::vector<pages::Series> series;
  for (const Json& run : runs)
    for (const auto& [field, name] : fields) {
      Json points = Json::array();
      for (const Json& e : run["epochs"])
        if (e.contains(field)) points.push_back({e["epoch"], e[field]});
      if (!points.empty()) series.push_back({fields.size() > 1 ? name : name_of(run), points, "path"});
    }
  return pages::scaled(pages::chart(title, "epoch", unit, series), "y", log ? "log" : "linear");
}

inline Json level(Json chart, const char* name, double at) {
  const Json& points = chart["series"][0]["points"];
  chart["series"].push_back(
      {{"name", name}, {"style", "dashed"}, {"points", {{points.front()[0], at}, {points.back()[0], at}}}});
  return chart;
}

/// Whether it settled, and what its gradients are worth, in sentences.
inline std::pair<std::string, std::string> verdict(const Json& run, const Settings& s) {
  long trusted = 0, doubtful = 0, untrusted = 0, beyond = 0;
  double radius = 0, largest = 0;
  for (const Json& e : run["epochs"]) {
    trusted += e["trusted"].get<long>();
    doubtful += e["doubtful"].get<long>();
    untrusted += e["untrusted"].get<long>();
    radius = e["largest_radius"].is_number() ? e["largest_radius"].get<double>() : bilevel::unknown;
    beyond += !(radius < 1);
    largest = std::max(largest, radius);
  }
  const Json& last = run["epochs"].back();
  const bool all = last["doubtful"] == 0 && last["untrusted"] == 0;
  std::string text = fmt::format(
      "{} gradients: {} trusted, {} doubtful, {} untrusted, by what both phases left of their residuals and "
      "were "
      "asked for. Steps along untrusted ones are not taken.\n\n",
      trusted + doubtful + untrusted, trusted, doubtful, untrusted);
  if (beyond == 0)
    text += fmt::format(
        "The cell contracts nearby where it settles: the spectral radius of ∂f/∂φ ends at {:.2f}.", radius);
  else
    text += fmt::format(
        "After {} of {} epochs there were samples whose spectral radius of ∂f/∂φ is not below 1 (at most "
        "{:.2f}, at the "
        "end {:.2f}): there φ ← f(φ, x) alone no longer settles, and where it settled all the same the "
        "acceleration did "
        "it. A --bound on the weights, or a larger --penalty on the Jacobian, keeps the cell contracting.",
        beyond, run["epochs"].size(), largest, radius);
  double not_finite = 0;
  for (const Json& e : run["epochs"]) not_finite += e["not_finite"].get<double>();
  if (not_finite > 0) text += fmt::format("\n\nThe loss of {:g} batches was not finite.", not_finite);
  if (last["untrusted"] != 0)
    text += fmt::format("\n\nIn the last epoch, {} of {}, {} batches did not settle{}.",
                        last["epoch"].get<long>(), s.epochs, last["untrusted"].get<long>(),
                        last["epoch"] == s.epochs
                            ? ""
                            : ": it learned nothing more, and the run was ended. Smaller steps (--rate), a "
                              "--bound, a larger --penalty or more --steps may help");
  return {all ? "trusted" : last["untrusted"] == 0 ? "doubtful" : "untrusted", text};
}

inline Json page(const std::string& title, const std::vector<Json>& runs, const Json& memory,
                 const Settings& s, double difference, long parameters) {
  Json rows = Json::array(), bytes = Json::array(), settled = Json::array(), kept = Json::array();
  for (const Json& run : runs)
    rows.push_back({name_of(run), fmt::format("{:.2f} %", 100 * run["test_accuracy"].get<double>()),
                    fmt::format("{:.1f}", 1000 * run["seconds_a_step"].get<double>())});
  for (const Json& m : memory) {
    bytes.push_back({m["steps"], m["taken"], fmt::format("{:.2f}", mebibytes(m["equilibrium"])),
                     fmt::format("{:.2f}", mebibytes(m["unrolled"]))});
    settled.push_back({m["steps"], mebibytes(m["equilibrium"])});
    kept.push_back({m["steps"], mebibytes(m["unrolled"])});
  }
  Json facts = Json::array();
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"parameters", std::to_string(parameters)},
           {"training rows", std::to_string(s.rows)},
           {"batch", std::to_string(s.batch)},
           {"device", s.device},
           {"seed", std::to_string(s.seed)},
           {"tolerance", fmt::format("{:g}", s.tolerance)},
           {"bound", fmt::format("{:g}", s.bound)},
           {"penalty", fmt::format("{:g}", s.penalty)},
           {"error of the gradient against differences of the whole solve, in float64",
            fmt::format("{:.1e}", difference)}})
    facts.push_back(Json::array({name, value}));
  const auto [status, text] = verdict(runs[0], s);
  const std::vector<Json> first{runs[0]};
  return {
      {"title", title},
      {"lead",
       "A cell f that is applied until φ = f(φ, x), and is differentiated where it settled, beside the same "
       "cell "
       "applied a fixed number of times."},
      {"facts", facts},
      {"sections",
       {{{"title", "What came out"},
         {"status", status},
         {"blocks",
          {{{"type", "text"}, {"text", text}},
           {{"type", "table"},
            {"columns", {"network", "test accuracy", "milliseconds a step of training"}},
            {"rows", rows}}}}},
        {{"title", "Learning"},
         {"blocks",
          {{{"type", "columns"},
            {"blocks",
             {chart(runs, "Training loss", "cross-entropy", {{"loss", ""}}, true),
              chart(runs, "Share of the test rows that are right", "share", {{"test_accuracy", ""}})}}}}}},
        {{"title", "Does it go on settling?"},
         {"blocks",
          {{{"type", "columns"},
            {"blocks",
             {level(chart(first, "Residuals of the batches", "‖φ − f(φ)‖/‖φ‖",
                          {{"residual", "mean"}, {"worst_residual", "worst sample"}}, true),
                    "asked for", s.tolerance),
              chart(first, "Work a batch", "evaluations or products",
                    {{"steps", "forwards"}, {"products", "backwards"}})}}},
           {{"type", "columns"},
            {"blocks",
             {level(chart(first, "Spectral radius of ∂f/∂φ at 64 test samples", "radius",
                          {{"radius", "mean"}, {"largest_radius", "largest"}}),
                    "contraction ends", 1),
              chart(first, "Gradients by verdict", "batches",
                    {{"trusted", "trusted"}, {"doubtful", "doubtful"}, {"untrusted", "untrusted"}})}}}}}},
        {{"title", "Memory"},
         {"status", flat(memory, "equilibrium") ? "holds" : "fails"},
         {"blocks",
          {{{"type", "chart"},
            {"title", "Most memory in one step of training"},
            {"x", {{"name", "steps"}, {"scale", "log"}}},
            {"y", {{"name", "MiB"}, {"scale", "log"}}},
            {"series",
             {{{"name", "equilibrium"}, {"style", "path"}, {"points", settled}},
              {{"name", "unrolled"}, {"style", "path"}, {"points", kept}}}}},
           {{"type", "table"},
            {"columns", {"steps allowed", "taken by the equilibrium", "equilibrium, MiB", "unrolled, MiB"}},
            {"rows", bytes}}}}}}}};
}

/// Trains the equilibrium and each unrolled network from the same start, measures, writes --json and
/// --report.
template <class Network>
Json compared(const std::string& title, const Network& network, const Data& data, const Settings& s,
              double difference) {
  std::vector<Json> runs{train(*network(), data, s, 0)};
  for (const long depth : s.unrolled) runs.push_back(train(*network(), data, s, depth));
  const Json bytes = memory(*network(), data, s);
  long parameters = 0;
  for (const Tensor& p : network()->parameters()) parameters += p.numel();
  Json result{{"equilibrium", runs[0]},
              {"unrolled", Json(std::vector<Json>(runs.begin() + 1, runs.end()))},
              {"memory", bytes},
              {"parameters", parameters},
              {"difference_error", difference},
              {"page", page(title, runs, bytes, s, difference, parameters)}};
  if (!s.json.empty()) pages::write_file(s.json, result.dump(2));
  if (!s.report.empty()) pages::write_page(s.report, result["page"]);
  return result;
}

}  // namespace equilibrium
