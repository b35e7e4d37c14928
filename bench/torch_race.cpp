// Our side of the race in bench/race/torch: training steps of a clipped Hopfield network by one-sided
// equilibrium propagation, 20/4 steps, on the weights and the batch of the file that energy.py writes. Prints
// one JSON object and leaves the first gradient in FILE.gradient.
//
//   bench_torch_race FILE [schedule = even-odd] [step = 1] [beta = 0.5] [repeats = 100]

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <bilevel/bilevel.hpp>
#include <bilevel/networks/propagation.hpp>

using namespace bilevel::networks;
using Vector = Eigen::VectorXf;

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_torch_race FILE [schedule] [step] [beta] [repeats]\n");
    return 2;
  }
  try {
    const std::string path = argv[1];
    const Schedule schedule = schedule_of(argc > 2 ? argv[2] : "even-odd");
    const double step = argc > 3 ? std::atof(argv[3]) : 1, beta = argc > 4 ? std::atof(argv[4]) : 0.5;
    const int repeats = argc > 5 ? std::max(1, std::atoi(argv[5])) : 100;

    std::ifstream file(path, std::ios::binary);
    std::int64_t shape[4];
    file.read(reinterpret_cast<char*>(shape), sizeof shape);
    if (!file || *std::min_element(shape, shape + 4) <= 0 || *std::max_element(shape, shape + 4) > (1 << 16))
      throw bilevel::InvalidInput(fmt::format("{} is not a file of energy.py", path));
    const Architecture a{.layers = {shape[0], shape[1], shape[2]}};
    const Index batch = shape[3];
    Vector theta(a.parameters()), inputs(a.inputs() * batch), targets(a.outputs() * batch);
    for (Vector* each : {&theta, &inputs, &targets})
      file.read(reinterpret_cast<char*>(each->data()), static_cast<std::streamsize>(each->size() * 4));
    if (!file) throw bilevel::InvalidInput(fmt::format("{} ends early", path));

    Propagation<float> propagation(a, {.nudge = bilevel::Nudge::forward,
                                       .beta = beta,
                                       .free = {.schedule = schedule, .step = step, .max_steps = 20},
                                       .nudged = {.schedule = schedule, .step = step, .max_steps = 4}});
    Vector gradient(theta.size());
    propagation.gradient(theta.data(), inputs.data(), targets.data(), batch, nullptr, gradient.data());
    std::ofstream(path + ".gradient", std::ios::binary)
        .write(reinterpret_cast<const char*>(gradient.data()),
               static_cast<std::streamsize>(gradient.size() * 4));

    std::vector<double> seconds;
    for (int i = 0; i < repeats + 3; ++i) {
      const bilevel::Stopwatch watch;
      propagation.gradient(theta.data(), inputs.data(), targets.data(), batch, nullptr, gradient.data());
      theta -= 1e-7f * gradient;
      if (i >= 3) seconds.push_back(watch.seconds());
    }
    std::sort(seconds.begin(), seconds.end());
    const nlohmann::json j{{"seconds", seconds[seconds.size() / 2]}, {"fastest_seconds", seconds.front()}};
    fmt::print("{}\n", j.dump());
  } catch (const bilevel::InvalidInput& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
