// A network that settles, trained from memory: rows and labels in, classes out.
#include <cstdio>
#include <random>

#include <bilevel/networks/train.hpp>

#include "arguments.hpp"

int main(int argc, char** argv) {
  if (const auto code = arguments::refused(argc, argv)) return *code;
  using namespace bilevel::networks;

  // Points in the plane, within a circle or outside of it.
  std::mt19937_64 engine(1);
  Eigen::MatrixXd rows(400, 2);
  std::vector<std::string> labels;
  for (Index i = 0; i < rows.rows(); ++i) {
    for (Index j = 0; j < 2; ++j) rows(i, j) = static_cast<double>(engine() >> 11) * 0x1p-52 - 1;
    labels.push_back(rows.row(i).norm() < 0.7 ? "inside" : "outside");
  }

  TrainOptions options;
  options.layers = {32};  // one hidden layer; inputs and outputs follow from the data
  options.epochs = 60;
  options.certify_every = 400;
  const TrainingData data = training_data(rows, labels);
  const TrainedNetwork trained = train(data, options);

  Eigen::MatrixXd points(3, 2);
  points << 0, 0, 0.2, -0.3, 0.9, 0.8;
  for (const std::string& answer : trained.network.predict(points)) std::printf("%s\n", answer.c_str());
  std::printf("test error below 15 %%: %s\n", trained.epochs.back().test_error < 0.15 ? "yes" : "no");
  std::printf("%ld gradients certified\n", trained.certified.count());
}
