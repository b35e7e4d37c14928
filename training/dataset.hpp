#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "task.hpp"

namespace training {

using Matrix = Eigen::MatrixXf;

/// Samples in columns, as the networks want them.
struct Part {
  std::string source;
  Matrix inputs;            ///< features × samples
  std::vector<int> labels;  ///< indices into the classes

  Index rows() const { return inputs.cols(); }
};

struct TrainData {
  Part train, test;
  std::vector<std::string> classes;
  std::optional<std::pair<Index, Index>> image;  ///< rows × columns of a picture
  std::string scaling;                           ///< what was done to the features, in words
  Eigen::VectorXd shift, factor;                 ///< x ← (x − shift)·factor
  Eigen::VectorXd imputed;                       ///< what stood in for missing cells; empty: none may be
  bilevel::data::Schema schema;                  ///< of the file, without features where pictures were drawn
  bool generated = false;
  std::vector<std::string> notes;

  Index features() const { return train.inputs.rows(); }
  /// Root of the mean square of the training rows' features, scaled.
  double feature_size() const {
    return static_cast<double>(train.inputs.norm()) / std::sqrt(static_cast<double>(train.inputs.size()));
  }
};

/// Reads or draws the data, scales it by what the training rows show, and sets test rows aside.
TrainData load(const TrainTask& task);

/// Features × samples in single precision; sparse rows are spread out.
Matrix columns_of(const bilevel::data::Dataset& data, const std::vector<Index>& rows);
std::vector<Index> all_rows(Index count);
/// x ← (x − shift)·factor
void rescale(const Eigen::VectorXd& shift, const Eigen::VectorXd& factor, Matrix& inputs);

/// Small pictures of the ten digits, shifted, thickened and with noise: something to train on anywhere. 12
/// × 12.
void draw_digits(Index count, std::uint64_t seed, Part& part);

}  // namespace training
