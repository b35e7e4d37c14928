#include <algorithm>
#include <cmath>
#include <utility>

#include <bilevel/outcome/violations.hpp>
#include <bilevel/problems/data_loss.hpp>

namespace bilevel::problems {
namespace {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;
using kernels::Loss;

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Up to here the matrix of the squared loss, which is the same everywhere, is formed once: later values and
/// products cost d² instead of n·d.
constexpr Index kept_gram = 1200;

void require_labels(const LossKind& kind, const Vec& labels, const std::vector<RowRange>& ranges) {
  for (const auto& [first, last] : ranges)
    for (Index i = first; i < last; ++i)
      if (!kind.takes(labels[i]))
        throw InvalidInput(fmt::format("the label in row {} (counted from 0) is {}; {} wants {}", i,
                                       labels[i], kind.model, kind.wants));
}

/// One range of rows with the scratch that its kernels need.
struct Segment {
  Segment(const Samples& samples, RowRange range, double parameter)
      : rows{samples.labels->data() + range.first,
             samples.weights ? samples.weights->data() + range.first : nullptr,
             samples.offsets ? samples.offsets->data() + range.first : nullptr, parameter,
             std::log(parameter)},
        count(range.second - range.first),
        pass(*samples.matrix, range) {}

  void gram(const double* curvature, double* out) {
    pass.visit([&](const auto& x, auto& w) { kernels::gram(x, curvature, out, w); });
  }
  void margins(const double* u, double* out) {
    pass.visit([&](const auto& x, auto& w) { kernels::margins(x, u, rows.offsets, out, w); });
  }

  kernels::Rows rows;
  Index count;
  RowPass<kernels::Workspace, kernels::SparseWorkspace> pass;
};

class ScalarLoss : public DataLoss {
 public:
  ScalarLoss(Loss loss, Samples samples, std::vector<RowRange> ranges, double parameter)
      : DataLoss(std::move(samples), std::move(ranges)),
        kind_(kind_of(loss)),
        parameter_(parameter),
        inverse_weight_(1 / total_weight_),
        size_(samples_.matrix->features() + 1) {
    if (!samples_.labels) throw InvalidInput("data loss: there are no labels");
    require_labels(kind_, *samples_.labels, ranges_);
    labels_ = {0, 0};
    for (const auto& range : ranges_) {
      segments_.emplace_back(samples_, range, parameter);
      for (Index i = range.first; i < range.second; ++i) {
        const double weight = samples_.weights ? (*samples_.weights)[i] : 1;
        labels_.mean += weight * (*samples_.labels)[i];
        if (weight > 0) labels_.largest = std::max(labels_.largest, std::abs((*samples_.labels)[i]));
      }
    }
    labels_.mean *= inverse_weight_;
    shape_ = kind_.shape(parameter_, labels_);
    scratch_ = unit_ = Vec::Zero(size_);
    unit_[size_ - 1] = 1;
    if (!constant()) {
      curvature_ = Vec::Zero(row_count());
      curvature_point_ = Vec::Zero(size_);
    }
  }

  const LossKind* kind() const override { return &kind_; }
  LossShape shape() const override { return shape_; }

  double value(const Vec& u, Vec* gradient) override {
    const bool curvature = gradient && !constant();
    double sum = 0;
    Index place = 0;
    for (std::size_t k = 0; k < segments_.size(); ++k) {
      double* target = !gradient ? nullptr : k == 0 ? gradient->data() : scratch_.data();
      double* second = curvature ? curvature_.data() + place : nullptr;
      Segment& segment = segments_[k];
      sum += segment.pass.visit([&](const auto& x, auto& w) {
        return kernels::value_with_gradient(kind_.loss, x, u.data(), segment.rows, target, second, w);
      });
      if (gradient && k > 0) *gradient += scratch_;
      place += ranges_[k].second - ranges_[k].first;
    }
    if (gradient) *gradient *= inverse_weight_;
    if (curvature) {
      curvature_point_ = u;
      curvature_valid_ = true;
    }
    const double mean = sum * inverse_weight_;
    const bool bounded = std::isfinite(shape_.largest_curvature);
    slope_size_ = bounded || curvature
                      ? kind_.slope_size(parameter_, mean, bounded ? 0 : largest_of(curvature_), labels_)
                      : infinite;
    return mean;
  }

  void curvature_at(const Vec& u, RowCurvature& curvature) override {
    if (constant()) {
      // Null weights are ones for the kernels: nothing to keep unless samples are weighted.
      if (samples_.weights && curvature.weights.size() == 0) {
        curvature.weights.resize(row_count());
        Index place = 0;
        for (const auto& [first, last] : ranges_) {
          curvature.weights.segment(place, last - first) = samples_.weights->segment(first, last - first);
          place += last - first;
        }
      }
      return;
    }
    if (curvature_valid_ && curvature_point_ == u) {
      curvature.weights = curvature_;
      return;
    }
    curvature.weights.resize(row_count());
    for_each_segment([&](Segment& segment, Index place) {
      segment.pass.visit([&](const auto& x, auto& w) {
        kernels::curvature(kind_.loss, x, u.data(), segment.rows, curvature.weights.data() + place, w);
      });
    });
  }

  void times(const RowCurvature& curvature, const Vec& v, Vec& out) override {
    out.setZero();
    for_each_segment([&](Segment& segment, Index place) {
      segment.pass.visit([&](const auto& x, auto& w) {
        kernels::product(x, weights_at(curvature, place), v.data(), scratch_.data(), w);
      });
      out += scratch_;
    });
    out *= inverse_weight_;
  }

  void diagonal(const RowCurvature& curvature, Vec& squares, Vec& with_intercept, Mat& intercepts) override {
    squares.setZero(size_);
    with_intercept.resize(size_);
    for_each_segment([&](Segment& segment, Index place) {
      segment.pass.visit([&](const auto& x, auto& w) {
        kernels::gram_diagonal(x, weights_at(curvature, place), scratch_.data(), w);
      });
      squares += scratch_;
    });
    squares *= inverse_weight_;
    times(curvature, unit_, with_intercept);
    intercepts = squares.tail(1);
  }

  bool dense(const RowCurvature& curvature, Mat& out) override {
    out.resize(size_, size_);
    if (segments_.size() == 1) {
      segments_[0].gram(weights_at(curvature, 0), out.data());
    } else {
      gram_.resize(size_, size_);
      out.setZero();
      for_each_segment([&](Segment& segment, Index place) {
        segment.gram(weights_at(curvature, place), gram_.data());
        out += gram_;
      });
    }
    out *= inverse_weight_;
    return true;
  }

  bool second_moments(Mat& out) override {
    if (size_ > kept_moments) return false;
    out.setZero(size_, size_);
    gram_.resize(size_, size_);
    for_each_segment([&](Segment& segment, Index) {
      segment.gram(segment.rows.weights, gram_.data());
      out += gram_;
    });
    gram_.resize(0, 0);
    out *= inverse_weight_;
    return true;
  }

  double distance_to_kink(const Vec& u) override {
    if (!kind_.distance_to_kink) return infinite;
    Vec margins(row_count());
    double least = infinite;
    for_each_segment([&](Segment& segment, Index place) {
      segment.margins(u.data(), margins.data() + place);
      for (Index i = 0; i < segment.count; ++i) {
        if (segment.rows.weights && segment.rows.weights[i] == 0) continue;
        least =
            std::min(least, kind_.distance_to_kink(margins[place + i], segment.rows.labels[i], parameter_));
      }
    });
    return least;
  }

  double slope_size() const override { return slope_size_; }
  double largest_curvature(const RowCurvature& curvature) const override {
    return curvature.weights.size() == 0 ? 1 : largest_of(curvature.weights);
  }
  void least_curvatures(const RowCurvature& curvature, Vec& mean_of_rows) override {
    mean_of_rows.resize(size_);
    times(curvature, unit_, mean_of_rows);
  }

  Depths depths() const override {
    Depths most{0, 0, 0};
    for (const Segment& segment : segments_)
      segment.pass.visit([&](const auto&, const auto& w) {
        most = {std::max(most.margin, w.chunking.margin_depth()), std::max(most.sum, w.chunking.sum_depth()),
                std::max(most.dense, w.chunking.gram_depth())};
      });
    const double extra = static_cast<double>(segments_.size());
    return {most.margin + 1, most.sum + extra, most.dense + extra};
  }

  void rows(const Vec& u, Vec* losses, Vec& margins) override {
    margins.resize(row_count());
    if (losses) losses->resize(row_count());
    for_each_segment([&](Segment& segment, Index place) {
      segment.margins(u.data(), margins.data() + place);
      if (!losses) return;
      for (Index i = 0; i < segment.count; ++i)
        (*losses)[place + i] = kind_.value(margins[place + i], segment.rows.labels[i], parameter_);
    });
  }

  void slopes(const Vec& u, Vec& out) override {
    rows(u, nullptr, out);
    Index place = 0;
    for (const auto& [first, last] : ranges_)
      for (Index i = first; i < last; ++i, ++place)
        out[place] = kind_.slope(out[place], (*samples_.labels)[i], parameter_);
  }

 protected:
  template <class Work>
  void for_each_segment(Work&& work) {
    Index place = 0;
    for (std::size_t k = 0; k < segments_.size(); ++k) {
      work(segments_[k], place);
      place += ranges_[k].second - ranges_[k].first;
    }
  }
  const double* weights_at(const RowCurvature& curvature, Index place) const {
    return curvature.weights.size() == 0 ? nullptr : curvature.weights.data() + place;
  }
  /// The largest of w_i·loss″_i without its weight.
  double largest_of(const Vec& weighted) const {
    if (!samples_.weights) return weighted.maxCoeff();
    double largest = 0;
    Index place = 0;
    for (const auto& [first, last] : ranges_)
      for (Index i = first; i < last; ++i, ++place)
        if ((*samples_.weights)[i] > 0) largest = std::max(largest, weighted[place] / (*samples_.weights)[i]);
    return largest;
  }
  /// loss″ is 1 everywhere.
  bool constant() const { return kind_.loss == Loss::squared; }

  const LossKind& kind_;
  double parameter_, inverse_weight_, slope_size_ = infinite;
  LabelRange labels_;
  LossShape shape_;
  Index size_;
  std::vector<Segment> segments_;
  Vec scratch_, unit_;
  Mat gram_;
  // loss″ at the last u whose gradient was asked for: Newton's method linearises there next.
  Vec curvature_, curvature_point_;
  bool curvature_valid_ = false;
};

/// The squared loss in few dimensions: ½uᵀGu − c·u + ½y², with G and c formed once.
class KeptSquaredLoss final : public ScalarLoss {
 public:
  KeptSquaredLoss(Samples samples, std::vector<RowRange> ranges)
      : ScalarLoss(Loss::squared, std::move(samples), std::move(ranges), 1) {
    RowCurvature curvature;
    ScalarLoss::curvature_at(Vec(), curvature);
    ScalarLoss::dense(curvature, kept_);
    // At u = 0 the slope is offset − label: minus c. The rest of value() would cancel less well from there.
    correlation_.resize(size_);
    const Vec zero = Vec::Zero(size_);
    squares_ = 2 * ScalarLoss::value(zero, &correlation_);
    gram_.resize(0, 0);
  }

  double value(const Vec& u, Vec* gradient) override {
    scratch_.noalias() = kept_.selfadjointView<Eigen::Lower>() * u;
    const double value = 0.5 * u.dot(scratch_) + u.dot(correlation_) + 0.5 * squares_;
    if (gradient) *gradient = scratch_ + correlation_;
    return value;
  }
  void curvature_at(const Vec&, RowCurvature&) override {}
  void times(const RowCurvature&, const Vec& v, Vec& out) override {
    out.noalias() = kept_.selfadjointView<Eigen::Lower>() * v;
  }
  void diagonal(const RowCurvature&, Vec& squares, Vec& with_intercept, Mat& intercepts) override {
    squares = kept_.diagonal();
    with_intercept = kept_.col(size_ - 1);
    intercepts = squares.tail(1);
  }
  bool dense(const RowCurvature&, Mat& out) override {
    out = kept_;
    return true;
  }
  bool second_moments(Mat& out) override {
    out = kept_;
    return true;
  }
  double slope_size() const override { return std::sqrt(squares_); }
  bool keeps_moments() const override { return true; }
  Depths depths() const override {
    const Depths d = ScalarLoss::depths();
    // Margins never appear; a gradient is a row of G times u.
    return {d.margin, d.dense + static_cast<double>(size_) + 2, d.dense};
  }

 private:
  Mat kept_;
  Vec correlation_;
  double squares_ = 0;
};

}  // namespace

std::unique_ptr<DataLoss> make_scalar_loss(Loss loss, Samples samples, std::vector<RowRange> ranges,
                                           double parameter) {
  const LossKind& kind = kind_of(loss);
  if (!(parameter >= kind.least_parameter && parameter <= kind.largest_parameter))
    throw InvalidInput(fmt::format("{}: the {} {} is not positive, or not within {:g} and {:g}", kind.model,
                                   kind.parameter, parameter, kind.least_parameter, kind.largest_parameter));
  if (loss == Loss::squared && samples.matrix && samples.matrix->features() < kept_gram)
    return std::make_unique<KeptSquaredLoss>(std::move(samples), std::move(ranges));
  return std::make_unique<ScalarLoss>(loss, std::move(samples), std::move(ranges), parameter);
}

}  // namespace bilevel::problems
