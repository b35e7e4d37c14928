#include <cmath>

#include <fmt/format.h>
#include <bilevel/bilevel.hpp>
#include <bilevel/data/make_dataset.hpp>
#include <bilevel/models/tune.hpp>
#include <bilevel/networks/train.hpp>

using Vec = Eigen::VectorXd;

/// φ follows θ and shall be 3.
struct Follows {
  Vec initial_phi() const { return Vec::Zero(1); }
  Vec initial_theta() const { return Vec::Zero(1); }
  double inner(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) const {
    if (wanted.phi) *wanted.phi = phi - theta;
    if (wanted.theta) *wanted.theta = theta - phi;
    return 0.5 * (phi - theta).squaredNorm();
  }
  double outer(const Vec& phi, const Vec&, bilevel::Wanted<Vec> wanted) const {
    if (wanted.phi) *wanted.phi = phi.array() - 3;
    if (wanted.theta) wanted.theta->setZero();
    return 0.5 * (phi[0] - 3) * (phi[0] - 3);
  }
};

int main() {
  const bilevel::Summary s = bilevel::minimise(Follows{});

  Eigen::MatrixXd x(60, 2);
  for (Eigen::Index i = 0; i < x.rows(); ++i) x.row(i) << std::sin(1.0 * i), std::cos(2.0 * i);
  const Vec y = x.col(0) - 0.5 * x.col(1);
  const auto tuned =
      bilevel::models::tune(bilevel::data::make_dataset(x, y), {.model = bilevel::models::Model::ridge});

  std::vector<std::string> labels;
  for (Eigen::Index i = 0; i < x.rows(); ++i) labels.push_back(y[i] > 0 ? "up" : "down");
  bilevel::networks::TrainOptions options;
  options.layers = {4};
  options.epochs = 1;
  const auto trained = bilevel::networks::train(bilevel::networks::training_data(x, labels), options);

  fmt::print("bilevel {}: {}, {}, {} epoch\n", bilevel::version, name(s.status), name(tuned.summary.status),
             trained.epochs.size());
  return succeeded(s.status) && std::abs(s.theta[0] - 3) < 1e-5 && trained.epochs.size() == 1 ? 0 : 1;
}
