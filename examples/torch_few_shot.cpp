// Few-shot learning with tasks of one's own: damped swings, each with its own height, pace and damping. A map
// from eight numbers to the weights of a network is learned; a new swing adapts these numbers to ten points
// of it.
#include <cmath>
#include <random>

#include <fmt/format.h>
#include <torch/torch.h>

#include <bilevel/learning/meta_learn.hpp>

#include "arguments.hpp"

using namespace bilevel::learning;

class Swings final : public TaskSource {
 public:
  explicit Swings(std::uint64_t stream) : stream_(stream) {}
  const TaskForm& form() const override { return form_; }

  Tasks draw(long count, std::uint64_t number) const override {
    std::seed_seq seeds{stream_, number & 0xffffffffU, number >> 32};
    std::mt19937_64 engine(seeds);
    const auto even = [&](double low, double high) {
      return std::uniform_real_distribution<double>(low, high)(engine);
    };
    const auto rows = [&](long each) { return torch::empty({count, each, 1}); };
    Tasks tasks{rows(form_.support), rows(form_.support), rows(form_.query), rows(form_.query)};
    for (long t = 0; t < count; ++t) {
      const double height = even(0.5, 3), pace = even(1, 2), damping = even(0, 0.5);
      for (auto [x, y] : {std::pair{&tasks.support_x, &tasks.support_y}, {&tasks.query_x, &tasks.query_y}})
        for (long i = 0; i < x->size(1); ++i) {
          const double at = even(0, 5);
          (*x)[t][i][0] = at - 2.5;  // inputs around zero suit a network of tanh
          (*y)[t][i][0] = height * std::exp(-damping * at) * std::cos(pace * at);
        }
    }
    return tasks;
  }

 private:
  std::uint64_t stream_;
  TaskForm form_{.input = {1}, .outputs = 1, .classes = false, .support = 10, .query = 10};
};

int main(int argc, char** argv) {
  if (const auto code = arguments::refused(argc, argv)) return *code;
  TaskData swings;
  swings.source = swings.fingerprint = "swings";
  swings.training = std::make_shared<Swings>(1);
  swings.test = std::make_shared<Swings>(2);

  MetaOptions options;
  options.learner = {.kind = LearnerKind::hypernetwork, .layers = {32, 32}, .embedding = 8};
  options.tasks = 10;
  options.steps = 300;
  options.adaptation.inner_steps = 30;
  options.adjoint_steps = 20;
  options.learning_rate = 0.005;
  options.test_tasks = 100;
  options.looks = 1;
  options.certify = 0;
  const MetaLearned learned = meta_learn(swings, options);

  const Tasks fresh = swings.test->draw(1, 12345);
  const Adapted one = learned.learner.adapt(fresh);
  const double before = (one.before - fresh.query_y).pow(2).mean().item<double>(),
               after = (one.after - fresh.query_y).pow(2).mean().item<double>();

  fmt::print("{}\n", name(learned.status));
  fmt::print("ten points of a new swing suffice: {}\n", learned.test.value < 0.1 ? "yes" : "no");
  fmt::print("without adapting it is a tenth as good at most: {}\n",
             learned.test.value < 0.1 * learned.test_before.value ? "yes" : "no");
  fmt::print("one that nobody has seen: {}\n", after < before ? "better once adapted" : "no better");
  fmt::print("the gradient points where the exact one does: {}\n",
             learned.probe->cosine > 0.98 ? "yes" : "no");
}
