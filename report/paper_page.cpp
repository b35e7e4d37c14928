#include "paper_page.hpp"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "blocks.hpp"
#include "run_sections.hpp"

namespace report {
namespace {

Json link_to(const Reading& claim) {
  return {{"text", claim.text("title")}, {"link", fmt::format("#{}", claim.text("name"))}};
}

Json status(bool holds) {
  return {{"status", holds ? "holds" : "fails"}};
}

/// What the paper shows as "Figure 12B" or "Table 1", redrawn by a claim.
struct Exhibit {
  int number;
  std::string label;
  Json block;
};

std::vector<Exhibit> exhibits(const Reading& claims, const std::string& kind) {
  std::vector<Exhibit> found;
  for (const Reading claim : claims) {
    const auto blocks = claim.find("blocks");
    if (!blocks) continue;
    for (const Reading block : *blocks) {
      const std::string label = block.text_or_empty("label");
      if (!label.starts_with(kind + " ")) continue;
      int number = 0;
      std::from_chars(label.data() + kind.size() + 1, label.data() + label.size(), number);
      found.push_back({number, label, block.json()});
      found.back().block["source"] = link_to(claim);
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Exhibit& a, const Exhibit& b) {
    return std::tie(a.number, a.label) < std::tie(b.number, b.label);
  });
  return found;
}

/// One section with all exhibits of a kind; those of one number, such as 1A and 1B, side by side.
void add_exhibits(Json& sections, const Reading& claims, const std::string& kind, const std::string& title) {
  const std::vector<Exhibit> all = exhibits(claims, kind);
  if (all.empty()) return;
  Json blocks = Json::array();
  for (std::size_t i = 0; i < all.size();) {
    Json group = Json::array();
    const int number = all[i].number;
    for (; i < all.size() && all[i].number == number; ++i) group.push_back(all[i].block);
    blocks.push_back(columns_block(std::move(group)));
  }
  add_section(sections, ("the-" + kind + "s").c_str(), title, std::move(blocks));
}

Json summary(const Reading& claims) {
  Json rows = Json::array();
  for (const Reading claim : claims)
    rows.push_back({link_to(claim), claim.text("place"), claim.text("expected"), claim.text("measured"),
                    status(claim.at("holds").truth())});
  return table_block("", {"Claim", "Place", "Expected", "Measured", "Status"}, std::move(rows));
}

/// Blocks as they are, but charts that follow each other side by side.
void add_blocks(Json& target, const Reading& blocks) {
  const auto is_chart = [&](std::size_t i) {
    return i < blocks.size() && blocks[i].text_or_empty("type") == "chart";
  };
  for (std::size_t i = 0; i < blocks.size();) {
    if (!is_chart(i) || !is_chart(i + 1)) {
      target.push_back(blocks[i++].json());
      continue;
    }
    Json charts = Json::array();
    for (; is_chart(i); ++i) charts.push_back(blocks[i].json());
    target.push_back(columns_block(std::move(charts)));
  }
}

/// `repeat` is what every command that repeats this run has besides the claims.
Json claim_section(const Reading& claim, const std::string& repeat) {
  Json blocks = Json::array({text_block(claim.text("statement"))});
  Json facts = Json::array();
  facts.push_back({"Place", claim.text("place")});
  facts.push_back({"Protocol", claim.text("protocol")});
  facts.push_back({"Truth", claim.text("truth")});
  if (const std::string slip = claim.text_or_empty("slip"); !slip.empty())
    facts.push_back({"Slip of the text", slip});
  facts.push_back({"Expected", claim.text("expected")});
  facts.push_back({"Measured", claim.text("measured")});
  if (const auto seconds = claim.find("seconds")) facts.push_back({"Time", duration(seconds->number())});
  blocks.push_back(facts_block(std::move(facts)));

  Json rows = Json::array();
  for (const Reading check : claim.at("checks"))
    rows.push_back({check.text("what"), check.text("expected"), check.text("measured"),
                    status(check.at("holds").truth())});
  blocks.push_back(table_block("Checks", {"What", "Expected", "Measured", "Status"}, std::move(rows)));
  if (const auto given = claim.find("blocks")) add_blocks(blocks, *given);
  const std::string name = claim.text("name");
  blocks.push_back(code_block(fmt::format("bilevel paper --claim {}{}", name, repeat)));
  return {{"id", name},
          {"title", claim.text("title")},
          {"level", 2},
          {"status", claim.at("holds").truth() ? "holds" : "fails"},
          {"blocks", std::move(blocks)}};
}

void add_notation(Json& sections) {
  Json items = Json::array();
  for (const auto& [symbol, meaning] : std::initializer_list<std::pair<const char*, const char*>>{
           {"L_in, L_out",
            "the inner and the outer loss; φ* minimises L_in(φ, θ), and ∇ is d/dθ of L_out(φ*, θ)"},
           {"φ̂, ∇̂", "what was computed instead of φ* and ∇; δ and δ′ bound the errors of the two phases"},
           {"phase 1, phase 2", "settling to φ*; finding π*, or settling again with L_in + β·L_out to φ_β"},
           {"H, g, χ, π*", "∂φ² L_in, ∂φ L_out, ∂θ∂φ L_in, and the solution of π*H = g"},
           {"μ, L, κ", "L_in is μ-strongly convex and L-smooth; κ = L/μ"},
           {"B, M, ρ, σ", "the Lipschitz constants of the error theorems"},
           {"Q", "the quadratic problem L_in = ½φᵀHφ − φᵀ(Jθ + b), L_out = ½(φ − y)ᵀG(φ − y)"},
           {"ℬ, a, C",
            "the bound a/β + B_out δ′ + C·β/(1+β) of equilibrium propagation, with a = B_in(δ + δ′)"},
           {"gradient equivalent", "the unit of cost: one gradient; a value is half, a Hessian product two"},
           {"an adversary", "errors of the phases in the direction that hurts most"},
           {"RBP, CG, EP", "recurrent backpropagation, conjugate gradients, equilibrium propagation"}})
    items.push_back({symbol, meaning});
  add_section(sections, "the-notation", "Notation", facts_block(std::move(items)));
}

}  // namespace

Json paper_page(const Json& result) {
  const Reading root(result, "");
  const Reading claims = root.at("claims");
  const Reading seed_value = root.at("seed");
  if (!seed_value.json().is_number_integer()) seed_value.fail("must be a whole number");
  const std::string seed = seed_value.json().dump();
  std::size_t holding = 0;
  Json slips = Json::array();
  for (const Reading claim : claims) {
    holding += claim.at("holds").truth();
    if (const std::string slip = claim.text_or_empty("slip"); !slip.empty())
      slips.push_back(Json::array({link_to(claim), slip}));
  }

  std::string lead =
      "Each statement that can be true or false of the paper “Beyond backpropagation: bilevel optimization "
      "through "
      "implicit differentiation and equilibrium propagation” (N. Zucchet and J. Sacramento, 2022), run as an "
      "experiment and compared with a truth known from elsewhere: a closed form, or a reference of much "
      "higher "
      "accuracy.";
  const std::string planted = root.text_or_empty("planted");
  if (!planted.empty())
    lead += fmt::format(
        "\n\nThis run has a defect on purpose, “{}”: the claims that rest on the defective part "
        "must fail, the others must still hold.",
        planted);

  if (const auto interrupted = root.find("interrupted"); interrupted && interrupted->truth())
    lead += "\n\nThe run was interrupted: the claims that are missing here were not tried.";

  Json facts = Json::array();
  facts.push_back({"Claims that hold",
                   {{"text", fmt::format("{} of {}", holding, claims.size())},
                    {"status", root.at("holds").truth() ? "holds" : "fails"}}});
  facts.push_back({"Seed", seed});
  facts.push_back({"Time", duration(root.at("seconds").number())});
  facts.push_back({"Version", root.text("version")});
  if (!planted.empty()) facts.push_back({"Planted defect", planted});

  Json sections = Json::array();
  std::string repeat = fmt::format(" --seed {}", seed);
  if (!planted.empty()) repeat += fmt::format(" --plant {}", planted);
  std::string only;
  if (const auto asked = root.find("asked"))
    for (const Reading name : *asked) only += (only.empty() ? " --claim " : ",") + name.text();
  Json blocks = Json::array();
  add_notices(blocks, root, {"planted", "asked", "interrupted", "claims.seconds", "claims.blocks"});
  blocks.push_back(summary(claims));
  blocks.push_back(text_block("The same page again:"));
  blocks.push_back(code_block(fmt::format("bilevel paper{}{} --report FILE.html", only, repeat)));
  add_section(sections, "the-summary", "Summary", std::move(blocks));
  add_notation(sections);
  add_exhibits(sections, claims, "Figure", "The paper’s figures");
  add_exhibits(sections, claims, "Table", "The paper’s tables");
  if (!slips.empty())
    add_section(
        sections, "the-slips", "Corrected slips",
        Json::array({text_block("Where the text of the paper is mistaken, the experiment tests the corrected "
                                "statement."),
                     table_block("", {"Claim", "What the text has wrong"}, std::move(slips))}));
  sections.push_back({{"id", "the-claims"}, {"title", "The claims"}, {"blocks", Json::array()}});
  for (const Reading claim : claims) sections.push_back(claim_section(claim, repeat));
  return page("Beyond backpropagation, executed", std::move(lead), std::move(facts), std::move(sections));
}

}  // namespace report
