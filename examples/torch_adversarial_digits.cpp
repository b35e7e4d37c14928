// A generator that leads, of digits: as torch_adversarial.cpp, with pictures for data. A classifier trained
// in the same run says which digits were drawn.
#include <fmt/format.h>
#include <torch/torch.h>

#include "adversarial_game.hpp"

using adversarial::Tensors;
using learning_run::Json;
using learning_run::yes;
using torch::Tensor;

namespace {

constexpr long fresh = 2000;

/// A network that tells digits, by Adam on minibatches.
Tensors judge_of(const learning_run::Digits& d, long width, long steps) {
  Tensors w = learning_run::network({d.x.size(1), width, 10}, d.x.options());
  for (Tensor& each : w) each.set_requires_grad(true);
  torch::optim::Adam adam(w, torch::optim::AdamOptions(2e-3).weight_decay(1e-4));
  for (long step = 0; step < steps; ++step) {
    const Tensor rows = torch::randint(d.x.size(0), {128}, d.y.options());
    adam.zero_grad();
    learning_run::cross_entropy(learning_run::through(w, d.x.index_select(0, rows)),
                                d.y.index_select(0, rows))
        .backward();
    adam.step();
  }
  for (Tensor& each : w) each.set_requires_grad(false);
  return w;
}

struct Judged {
  std::vector<double> shares;  ///< of the classes
  long covered = 0;            ///< classes with one picture in fifty or more
  double entropy = 0;          ///< of the classes that were drawn, log 10 at most
  double sure = 0;             ///< the judge's probability of the class it sees, on average
};

Judged judged(const Tensors& judge, const Tensor& pictures) {
  const Tensor seen = torch::softmax(learning_run::through(judge, pictures), 1);
  const Tensor share = torch::one_hot(seen.argmax(1), 10).to(torch::kDouble).mean(0);
  const Tensor host = share.cpu().contiguous();
  const auto* first = host.data_ptr<double>();
  return {{first, first + 10},
          (share >= 0.02).sum().item<long>(),
          -(share * (share + 1e-12).log()).sum().item<double>(),
          std::get<0>(seen.max(1)).mean().item<double>()};
}

bool play(const learning_run::Told& told) {
  const auto d = learning_run::digits(told, told.whole("--rows", 10), told.whole("--test-rows"));
  torch::manual_seed(told.whole("--seed", 0));
  const Tensors judge = judge_of(d, 128, told.whole("--judge-steps"));
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
      told.number("--slope")};
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
  const Judged first = judged(judge, game.generated(game.generator, z)), ours = judged(judge, drawn),
               theirs = judged(judge, other), data = judged(judge, game.sample(fresh));
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
                       pictures("By the leader", drawn.narrow(0, 0, 60).cpu(), d.height, d.width),
                       pictures("By alternating descent", other.narrow(0, 0, 30).cpu(), d.height, d.width),
                       pictures("Data", game.sample(30).cpu(), d.height, d.width)}),
              section(
                  "How it was learned",
                  {pages::chart("Classes", "step", "classes", {Series{"covered", covered}}),
                   pages::chart("What the classifier says", "step", "",
                                {Series{"entropy of the classes", entropies}, Series{"sure by", sure}})})}));
  fmt::print("the classifier tells nine in ten test digits right: {}\n", yes(knows > 0.9));
  fmt::print("it sees more classes than before: {}\n",
             yes(ours.covered > first.covered && ours.entropy > first.entropy));
  return ours.covered > first.covered;
}

}  // namespace

int main(int argc, char** argv) {
  auto options = adversarial::leader_options();
  options.insert({{"--data", ""},
                  {"--rows", "2000"},
                  {"--test-rows", "1000"},
                  {"--judge-steps", "1000"},
                  {"--steps", "60"},
                  {"--width", "48"},
                  {"--discriminator-width", "32"},
                  {"--latent", "16"},
                  {"--batch", "128"},
                  {"--seed", "1"}});
  options["--rate"] = "0.005";
  options["--slope"] = "1";
  options["--decay"] = "0.001";
  options["--game"] = "non-saturating";
  options["--estimator"] = "first-order";
  return learning_run::run(argc, argv, options, play);
}
