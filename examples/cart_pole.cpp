// A pole on a cart, learned by an actor and its critic. The critic is the inner problem: from some thousand
// steps it finds what a policy θ is worth, by least squares of temporal differences. The actor leads: it
// moves θ against what the critic will say of it then, and not against what it says now.
//   cart_pole [--seeds N] [--report FILE]
#include <fmt/ranges.h>

#include "cart_pole_critic.hpp"
#include "pages.hpp"

using namespace cart_pole;
using pages::Json;

constexpr int steps_each_round = 1000, steps_kept = 3000;

struct Learned {
  Vec theta = Vec::Zero(4);
  double fresh = 0;  ///< mean length of 100 episodes that nobody has seen
  Json rounds = Json::array(), lengths = Json::array();
  long refused = 0;
  bool derivatives = false;
};

Learned learn(std::uint64_t seed) {
  Learned learned;
  Draw draw(seed), check(1000 + seed), test(2000 + seed);
  std::vector<Move> moves;
  double tried = mean_length(learned.theta, check, 50);
  learned.lengths.push_back({0, tried});
  for (int round = 1; round <= 20 && tried < 490; ++round) {
    for (const auto had = moves.size(); moves.size() < had + steps_each_round;)
      play(learned.theta, draw, false, &moves);
    if (moves.size() > steps_kept) moves.erase(moves.begin(), moves.end() - steps_kept);
    ActorCritic losses(moves, learned.theta);
    auto problem = bilevel::make_problem(std::ref(losses));
    if (round == 1)
      learned.derivatives =
          bilevel::check_derivatives<Vec>(problem, Vec::Constant(2 * basis, 0.1), Vec::Constant(4, 0.5))
              .passed();
    const bilevel::Summary s = bilevel::minimise(problem, {.inner = bilevel::NewtonKrylovOptions{},
                                                           .estimator = "implicit-direct",
                                                           .outer = {.max_iterations = 20}});
    // Where A(θ) is nearly singular the critic promises the moon, and its gradient is not trusted: the policy
    // stays, and meets more data.
    const bool trusted = s.certificate.verdict == bilevel::Verdict::trusted;
    if (trusted) learned.theta = s.theta;
    learned.refused += !trusted;
    tried = mean_length(learned.theta, check, 50);
    learned.lengths.push_back({round, tried});
    learned.rounds.push_back({round,
                              moves.size(),
                              -s.outer_value,
                              s.evaluations,
                              s.certificate.bound,
                              {{"status", name(s.certificate.verdict)}},
                              tried});
  }
  learned.fresh = mean_length(learned.theta, test, 100);
  return learned;
}

Json page(const Learned& learned) {
  Draw draw(7);
  Json angle = Json::array(), position = Json::array();
  for (const State& s : play(learned.theta, draw, true)) {
    const double seconds = 0.02 * static_cast<double>(angle.size());
    angle.push_back({seconds, s[2] * degrees}), position.push_back({seconds, s[0]});
  }
  return {
      {"title", "A pole on a cart"},
      {"lead",
       fmt::format("Mean of 100 fresh episodes: {} of {} steps. The policy goes right where ({:.3g}) · "
                   "(x/2.4, ẋ/2, α/0.21, α̇/2) > 0.",
                   learned.fresh, longest, fmt::join(learned.theta, ", "))},
      {"sections",
       {pages::section("Learning",
                       {pages::chart("How long the pole stands", "round", "steps",
                                     {{"mean of 50 episodes", learned.lengths}}, "500 is the limit."),
                        pages::table({"round", "steps seen", "what the critic says", "gradients",
                                      "error bound", "verdict", "steps in 50 episodes"},
                                     learned.rounds)}),
        pages::section("An episode", {pages::chart("The pole", "seconds", "angle in degrees",
                                                   {{"angle", angle}}, "It falls at 12."),
                                      pages::chart("The cart", "seconds", "position in metres",
                                                   {{"position", position}}, "The track ends at 2.4.")})}}};
}

int balance(const arguments::Told& told) {
  const long seeds = told.whole("--seeds");
  long solved = 0;
  for (long seed = 1; seed <= seeds; ++seed) {
    const Learned learned = learn(static_cast<std::uint64_t>(seed));
    solved += learned.fresh >= 475;
    fmt::print(stderr, "seed {}: {} steps after {} rounds, {} of them refused\n", seed, learned.fresh,
               learned.rounds.size(), learned.refused);
    if (seed > 1) continue;
    fmt::print("derivatives agree with differences: {}\n", learned.derivatives);
    pages::write(told, {}, page(learned));
  }
  fmt::print("100 fresh episodes stand for 475 steps or more in the mean: {} of {}\n", solved, seeds);
  return 0;
}

int main(int argc, char** argv) {
  return arguments::run(argc, argv, {{"--json", ""}, {"--report", ""}, {"--seeds", "1"}}, balance);
}
