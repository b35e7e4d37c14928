// Our side of the race in bench/race/jaxopt: one cold, certified hypergradient of the per-feature logistic
// problem, from the file that hypergradient.py writes. Prints one JSON object with the fields of the peer's.
//
//   bench_jaxopt_race FILE [repeats = 21] [tolerance = 1e-5] [inner = newton] [estimator = implicit-direct]

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>

#include <nlohmann/json.hpp>

#include <bilevel/bilevel.hpp>
#include <bilevel/gradient/automatic.hpp>
#include <bilevel/gradient/implicit.hpp>
#include <bilevel/problems/logistic.hpp>

using Vec = Eigen::VectorXd;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

namespace {

struct Data {
  RowMajor x, validation_x;
  Vec y, validation_y, theta;
};

Data read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::int64_t shape[3];
  file.read(reinterpret_cast<char*>(shape), sizeof shape);
  if (!file || shape[0] <= 0 || shape[1] <= 0 || shape[2] <= 0 || shape[0] * shape[2] > (1 << 28))
    throw bilevel::InvalidInput(fmt::format("{} is not a file of hypergradient.py", path));
  Data data{RowMajor(shape[0], shape[2]), RowMajor(shape[1], shape[2]), Vec(shape[0]), Vec(shape[1]),
            Vec(shape[2])};
  const auto fill = [&](auto& matrix) {
    file.read(reinterpret_cast<char*>(matrix.data()), static_cast<std::streamsize>(matrix.size() * 8));
  };
  fill(data.x);
  fill(data.y);
  fill(data.validation_x);
  fill(data.validation_y);
  fill(data.theta);
  if (!file) throw bilevel::InvalidInput(fmt::format("{} ends early", path));
  return data;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_jaxopt_race FILE [repeats] [tolerance] [inner] [estimator]\n");
    return 2;
  }
  try {
    const int repeats = argc > 2 ? std::max(1, std::atoi(argv[2])) : 21;
    const double tolerance = argc > 3 ? std::atof(argv[3]) : 1e-5;
    const char* inner_name = argc > 4 ? argv[4] : "newton";
    const char* estimator_name = argc > 5 ? argv[5] : "implicit-direct";
    Data data = read(argv[1]);
    const Vec theta = data.theta;
    bilevel::problems::Logistic problem(data.x, data.y, data.validation_x, data.validation_y);
    bilevel::MinimiserOptions options;
    options.gradient_tolerance = tolerance;
    const auto inner = bilevel::make_inner_solver<Vec>(inner_name, problem, options);
    const auto estimator = bilevel::make_estimator<Vec>(estimator_name, problem, *inner,
                                                        {.adjoint = {.relative_tolerance = tolerance}});

    std::vector<double> seconds;
    bilevel::Estimate<Vec> e;
    for (int i = 0; i < repeats + 2; ++i) {
      const bilevel::Stopwatch watch;
      e = estimator->estimate(theta, {});
      if (i >= 2) seconds.push_back(watch.seconds());
    }
    std::sort(seconds.begin(), seconds.end());
    nlohmann::json j;
    j["seconds"] = seconds[seconds.size() / 2];
    j["fastest_seconds"] = seconds.front();
    j["repeats"] = repeats;
    j["gradient"] = std::vector<double>(e.gradient.data(), e.gradient.data() + e.gradient.size());
    j["outer_value"] = e.outer_value;
    j["inner_gradient_norm"] = e.certificate.inner_residual;
    j["inner_iterations"] = e.inner_iterations;
    j["tolerance"] = tolerance;
    j["bound"] = e.certificate.bound;
    j["kind"] = name(e.certificate.kind);
    j["verdict"] = name(e.certificate.verdict);
    j["seconds_by_phase"] = {e.cost.seconds_inner, e.cost.seconds_adjoint, e.cost.seconds_certificate};
    fmt::print("{}\n", j.dump());
  } catch (const bilevel::InvalidInput& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
