#include <bilevel/problems/linear_model.hpp>

#include <cmath>
#include <random>
#include <utility>

namespace bilevel::problems {
namespace {

using Vec = Eigen::VectorXd;
using RowMajor = ModelMatrix::RowMajor;

void require_part(std::string_view name, std::string_view part, const RowMajor& x, const Vec& y) {
  if (x.rows() == 0) throw InvalidInput(fmt::format("{}: the {} features have no rows", name, part));
  if (x.cols() == 0) throw InvalidInput(fmt::format("{}: the {} features have no columns", name, part));
  if (y.size() != x.rows())
    throw InvalidInput(
        fmt::format("{}: {} rows of {} features and {} labels", name, x.rows(), part, y.size()));
  for (Index i = 0; i < x.rows(); ++i)
    for (Index j = 0; j < x.cols(); ++j)
      if (!std::isfinite(x(i, j)))
        throw InvalidInput(fmt::format("{}: the {} features hold {} in row {}, column {} (counted from 0)",
                                       name, part, x(i, j), i, j));
  for (Index i = 0; i < y.size(); ++i)
    if (!std::isfinite(y[i]))
      throw InvalidInput(
          fmt::format("{}: the {} labels hold {} in row {} (counted from 0)", name, part, y[i], i));
}

std::unique_ptr<DataLoss> loss_of(kernels::Loss loss, const RowMajor& x, Vec y) {
  return make_scalar_loss(loss,
                          {std::make_shared<ModelMatrix>(x), std::make_shared<Vec>(std::move(y)), {}, {}, {}},
                          {{0, x.rows()}});
}

/// Without the column of ones.
ModelMatrix::DenseMap features_of(const DataLoss& loss) {
  const kernels::View view = loss.samples().matrix->dense_rows(loss.ranges().front());
  return {view.x, view.rows, view.columns - 1, Eigen::OuterStride<>(view.stride)};
}

}  // namespace

Violations LinearModelOptions::validate() const {
  Violations v("linear_model");
  v.at_least("rows", rows, 1)
      .at_least("validation_rows", validation_rows, 1)
      .at_least("features", features, 1);
  v.at_least("strong", strong, 0).at_least("group", group, 1);
  v.require((strong - 1) * group < features, "strong", strong, "times group must fit into features");
  v.require(correlation >= 0 && correlation < 1, "correlation", correlation,
            "must be at least 0 and below 1");
  v.not_negative("noise", noise);
  return v;
}

LinearModel::Parts LinearModel::parts(kernels::Loss loss, Data data, Penalty penalty) {
  const std::string_view name = kind_of(loss).model;
  require_part(name, "training", data.x, data.y);
  require_part(name, "validation", data.validation_x, data.validation_y);
  const Index d = data.x.cols();
  if (data.validation_x.cols() != d)
    throw InvalidInput(fmt::format("{}: {} columns of training features and {} of validation features", name,
                                   d, data.validation_x.cols()));
  return {loss_of(loss, data.x, std::move(data.y)),
          loss_of(loss, data.validation_x, std::move(data.validation_y)), Standardisation::none(d),
          penalty == Penalty::global ? PenaltyMap::global(d, 1) : PenaltyMap::per_feature(d, 1),
          std::move(data.planted)};
}

LinearModel::LinearModel(kernels::Loss loss, Data data, Penalty penalty)
    : LinearModel(parts(loss, std::move(data), penalty), penalty) {}

LinearModel::LinearModel(Parts parts, Penalty penalty)
    : PenalisedModel(std::move(parts.training), std::move(parts.validation), std::move(parts.standardisation),
                     std::move(parts.penalties), false),
      penalty_(penalty),
      planted_(std::move(parts.planted)) {
  keep_units_of_one();
}

ModelMatrix::DenseMap LinearModel::x() const {
  return features_of(training());
}

ModelMatrix::DenseMap LinearModel::validation_x() const {
  return features_of(validation());
}

LinearModel::Data LinearModel::draw(const LinearModelOptions& options, std::uint64_t& noise_seed) {
  options.validate().throw_if_any();
  std::mt19937_64 engine(options.seed);
  std::normal_distribution<double> normal;
  const double common = std::sqrt(options.correlation), own = std::sqrt(1 - options.correlation);
  const auto features = [&](Index rows) {
    RowMajor x(rows, options.features);
    for (Index i = 0; i < rows; ++i) {
      double shared = 0;
      for (Index j = 0; j < options.features; ++j) {
        if (j % options.group == 0) shared = normal(engine);
        x(i, j) = common * shared + own * normal(engine);
      }
    }
    return x;
  };
  Vec planted = Vec::Zero(options.features);
  for (Index k = 0; k < options.strong; ++k) planted[k * options.group] = k % 2 == 0 ? 1 : -1;
  const RowMajor x = features(options.rows), validation = features(options.validation_rows);
  noise_seed = engine();
  return {x, x * planted, validation, validation * planted, planted};
}

}  // namespace bilevel::problems
