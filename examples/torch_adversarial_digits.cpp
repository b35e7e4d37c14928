// A generator that leads, of digits: as torch_adversarial.cpp, with pictures for data and a discriminator
// that its slope holds back. A classifier trained in the same run says which digits were drawn.
#include <fmt/format.h>
#include <torch/torch.h>

#include "adversarial_game.hpp"
#include "digit_judge.hpp"

using adversarial::Judged, adversarial::judged, adversarial::Tensors;
using learning_run::Json;
using learning_run::yes;
using torch::Tensor;

namespace {

constexpr long fresh = 2000;

bool play(const learning_run::Told& told) {
  const auto d = learning_run::digits(told, told.whole("--rows", 10), told.whole("--test-rows"));
  torch::manual_seed(told.whole("--seed", 0));
  const Tensors judge = adversarial::judge_of(d, 128, told.whole("--judge-steps"));
  const double knows = learning_run::right(learning_run::through(judge, d.test_x), d.test_y);
  const long steps = told.whole("--steps"), width = told.whole("--width"), latent = told.whole("--latent");
  const long answers = told.whole("--discriminator-width");
  const auto like = d.x.options();
  const adversarial::Game game{
      [&](long rows) { return d.x.index_select(0, torch::randint(d.x.size(0), {rows}, d.y.options())); },
      [](const Tensor& x) { return torch::sigmoid(x - 1); },
      learning_run::network({latent, width, width, d.x.size(1)}, like),
      learning_run::network({d.x.size(1), answers, answers, 1}, like),
      told.whole("--batch"),
      told.number("--decay"),
      adversarial::saturates(told),
      told.number("--slope"),
      adversarial::at_start(told)};
  const Tensor z = game.noise(fresh);
  Json covered = Json::array(), entropies = covered, sure = covered;
  const auto look = [&](long step, const Tensor& pictures) {
    const Judged j = judged(judge, pictures);
    covered.push_back({step, j.covered});
    entropies.push_back({step, j.entropy});
    sure.push_back({step, j.sure});
    if (!told.text("--data").empty())
      fmt::print(stderr, "step {}: {} classes, entropy {:.2f}, sure by {:.2f}\n", step, j.covered, j.entropy,
                 j.sure);
  };
  const long every = std::max<long>(1, steps / 40);
  Tensors leader, follower;
  const auto played = adversarial::lead(told, game, steps, [&](long step, const Tensors& g) {
    leader = g;
    if (step % every == 0) look(step, game.generated(g, z));
  });
  const double budget = played.cost.gradient_equivalents();
  const auto followed =
      adversarial::alternate(told, game, budget, [&](long, const Tensors& g) { follower = g; });
  const torch::NoGradGuard guard;
  const Tensor drawn = game.generated(leader, z), other = game.generated(follower, z);
  const Judged ours = judged(judge, drawn), theirs = judged(judge, other),
               data = judged(judge, game.sample(fresh));
  const auto said = [](const Judged& j) {
    return Json{{"classes", j.covered}, {"entropy", j.entropy}, {"sure", j.sure}, {"shares", j.shares}};
  };
  const auto row = [](const char* what, const Judged& j) {
    return std::vector<std::string>{what, fmt::format("{}", j.covered), fmt::format("{:.3f}", j.entropy),
                                    fmt::format("{:.3f}", j.sure)};
  };
  using namespace learning_run;
  write(told,
        {{"steps", played.steps},
         {"judge_test_accuracy", knows},
         {"leader", said(ours)},
         {"alternating", said(theirs)},
         {"data", said(data)},
         {"gradients", budget},
         {"seconds", played.seconds},
         {"alternating_seconds", followed.seconds},
         {"alternating_steps", followed.steps},
         {"verdicts", played.verdicts},
         {"reason", played.reason},
         {"relative_bounds", played.bounds}},
        page("A generator of digits that leads",
             fmt::format("{} of ten classes, entropy {:.2f} of {:.2f}, as a classifier sees it that tells {} "
                         "of the test digits right.",
                         ours.covered, ours.entropy, std::log(10.0), percent(knows)),
             {{"steps", fmt::format("{}", played.steps)}, {"gradients", fmt::format("{:.0f}", budget)}},
             {section("What is drawn",
                      {table({"pictures of", "classes", "entropy", "the classifier is sure by"},
                             {row("the leader", ours), row("alternating descent, as many gradients", theirs),
                              row("the data", data)}),
                       pages::chart("Which digits", "", "share",
                                    {Series{"the leader", ours.shares, "bars"},
                                     Series{"alternating descent", theirs.shares, "bars"},
                                     Series{"the data", data.shares, "bars"}},
                                    "As the classifier tells them.",
                                    {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}),
                       pictures("By the leader", drawn.narrow(0, 0, 60).cpu(), d.height, d.width),
                       pictures("By alternating descent", other.narrow(0, 0, 30).cpu(), d.height, d.width),
                       pictures("Data", game.sample(30).cpu(), d.height, d.width)}),
              section(
                  "How it was learned",
                  {pages::chart("Classes", "step", "classes", {Series{"covered", covered}}),
                   pages::chart("What the classifier says", "step", "",
                                {Series{"entropy of the classes", entropies}, Series{"sure by", sure}})})}));
  fmt::print("the classifier tells nine in ten test digits right: {}\n", yes(knows > 0.9));
  fmt::print("eight of the ten digits are drawn, or more: {}\n", yes(ours.covered >= 8));
  return ours.covered >= 8;
}

}  // namespace

int main(int argc, char** argv) {
  arguments::Defaults options{{"--data", ""},
                              {"--rows", "2000"},
                              {"--test-rows", "1000"},
                              {"--judge-steps", "1000"},
                              {"--steps", "250"},
                              {"--width", "96"},
                              {"--discriminator-width", "64"},
                              {"--latent", "32"},
                              {"--batch", "100"},
                              {"--seed", "1"},
                              {"--rate", "0.003"},
                              {"--inner-steps", "5"},
                              {"--slope", "1"},
                              {"--decay", "0.001"},
                              {"--game", "non-saturating"},
                              {"--estimator", "first-order"}};
  options.merge(adversarial::leader_options());
  return learning_run::run(argc, argv, options, play);
}
