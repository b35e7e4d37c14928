#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <bilevel/outcome/violations.hpp>
#include <bilevel/problems/data_loss.hpp>
#include <bilevel/problems/softmax_kernels.hpp>

#include "problems/softmax_moments.hpp"

namespace bilevel::problems {
namespace {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

/// Up to here, in stored coefficients, the whole matrix is formed where it is asked for.
constexpr Index formed = 800;

class SoftmaxLoss final : public DataLoss {
 public:
  SoftmaxLoss(Index classes, Samples samples, std::vector<RowRange> ranges)
      : DataLoss(std::move(samples), std::move(ranges)),
        classes_(classes),
        inverse_weight_(1 / total_weight_),
        size_((samples_.matrix->features() + 1) * classes) {
    if (classes < 2) throw InvalidInput(fmt::format("softmax: {} classes, it takes two or more", classes));
    if (!samples_.classes || static_cast<Index>(samples_.classes->size()) != samples_.matrix->rows())
      throw InvalidInput("softmax: there is no class for every row");
    if (samples_.offsets) throw InvalidInput("softmax: offsets are not offered for several classes");
    for (const auto& range : ranges_) {
      for (Index i = range.first; i < range.second; ++i) {
        const int label = (*samples_.classes)[static_cast<std::size_t>(i)];
        if (label < 0 || label >= classes)
          throw InvalidInput(fmt::format("softmax: row {} has class {} of {}", i, label, classes));
      }
      segments_.emplace_back(samples_, range, classes);
    }
    scratch_ = curvature_point_ = Vec::Zero(size_);
    curvature_ = Vec::Zero(row_count() * classes_);
  }

  Index outputs() const override { return classes_; }
  LossShape shape() const override {
    // diag(p) − ppᵀ has norm ≤ ½. Its derivative along a unit vector is a third central moment of a variable
    // whose range is at most √2, hence at most (√2)³/(6√3); relative to the variance it is at most the range
    // of the direction, √2. The slope p − e_y is at most √2 long.
    const double c = static_cast<double>(classes_);
    return {0.5, 0.2721655269759087, 1.4142135623730951, false, 1.4142135623730951, (1 - 1 / c) / c};
  }

  double value(const Vec& u, Vec* gradient) override {
    double sum = 0;
    for_each_segment([&](Segment& s, Index place) {
      double* target = !gradient ? nullptr : place == 0 ? gradient->data() : scratch_.data();
      double* probabilities = gradient ? curvature_.data() + place * classes_ : nullptr;
      sum += s.pass.visit([&](const auto& x, auto& w) {
        return kernels::softmax_value_with_gradient(x, classes_, u.data(), s.labels, s.weights, target,
                                                    probabilities, w);
      });
      if (gradient && place > 0) *gradient += scratch_;
    });
    if (gradient) {
      *gradient *= inverse_weight_;
      curvature_point_ = u;
      curvature_valid_ = true;
    }
    return sum * inverse_weight_;
  }

  void curvature_at(const Vec& u, RowCurvature& curvature) override {
    if (!curvature_valid_ || curvature_point_ != u) {
      Vec unused(size_);
      value(u, &unused);
    }
    curvature.weights = curvature_;
  }

  void times(const RowCurvature& curvature, const Vec& v, Vec& out) override {
    out.setZero();
    for_each_segment([&](Segment& s, Index place) {
      const double* p = curvature.weights.data() + place * classes_;
      s.pass.visit([&](const auto& x, auto& w) {
        kernels::softmax_product(x, classes_, p, s.weights, v.data(), scratch_.data(), w);
      });
      out += scratch_;
    });
    out *= inverse_weight_;
  }

  void diagonal(const RowCurvature& curvature, Vec& squares, Vec& with_intercept, Mat& intercepts) override {
    squares.setZero(size_);
    with_intercept.setZero(size_);
    intercepts.setZero(classes_, classes_);
    const ModelMatrix& x = *samples_.matrix;
    const Index c = classes_;
    Index row = 0;
    for (const auto& [first, last] : ranges_)
      for (Index i = first; i < last; ++i, ++row) {
        const auto p = curvature.weights.segment(row * c, c).array();
        const double w = samples_.weights ? (*samples_.weights)[i] : 1;
        const Vec curvatures = w * p * (1 - p);
        x.for_each(i, [&](Index j, double value) {
          if (value == 0) return;
          squares.segment(j * c, c) += value * value * curvatures;
          with_intercept.segment(j * c, c) += value * curvatures;
        });
        squares.tail(c) += curvatures;
        intercepts.diagonal() += w * p.matrix();
        intercepts.noalias() -= w * p.matrix() * p.matrix().transpose();
      }
    with_intercept.tail(c) = squares.tail(c);
    squares *= inverse_weight_;
    with_intercept *= inverse_weight_;
    intercepts *= inverse_weight_;
  }

  bool dense(const RowCurvature& curvature, Mat& out) override {
    if (size_ > formed) return false;
    out.setZero(size_, size_);
    for_each_segment([&](Segment& s, Index place) {
      const double* p = curvature.weights.data() + place * classes_;
      if (s.moments)
        s.moments->add(samples_.matrix->dense_rows(s.range), p, s.weights, out);
      else
        add_pairs(s, p, out);
    });
    out *= inverse_weight_;
    return true;
  }

  bool second_moments(Mat& out) override {
    const Index n = size_ / classes_;
    if (n > kept_moments) return false;
    out.setZero(n, n);
    block_.resize(n, n);
    for_each_segment([&](Segment& s, Index) {
      gram(s, s.weights, block_);
      out += block_;
    });
    out *= inverse_weight_;
    return true;
  }
  double slope_size() const override { return 1.4142135623730951; }
  double largest_curvature(const RowCurvature&) const override { return 0.5; }
  /// For v ⟂ 1: vᵀ(diag(p) − ppᵀ)v = min_a Σ p_c (v_c − a)² ≥ min_c p_c · ‖v‖².
  void least_curvatures(const RowCurvature& curvature, Vec& mean_of_rows) override {
    const ModelMatrix& x = *samples_.matrix;
    mean_of_rows.setZero(x.features() + 1);
    Index row = 0;
    for (const auto& [first, last] : ranges_)
      for (Index i = first; i < last; ++i, ++row) {
        const double w = (samples_.weights ? (*samples_.weights)[i] : 1) *
                         curvature.weights.segment(row * classes_, classes_).minCoeff();
        x.for_each(i, [&](Index j, double value) { mean_of_rows[j] += w * value; });
        mean_of_rows[x.features()] += w;
      }
    mean_of_rows *= inverse_weight_;
  }

  Depths depths() const override {
    Depths most{0, 0, 0};
    for (const Segment& s : segments_)
      s.pass.visit([&](const auto&, const auto& w) {
        most = {std::max(most.margin, w.margin_depth), std::max(most.sum, w.sum_depth),
                std::max(most.dense, s.gram_depth)};
      });
    const auto extra = static_cast<double>(segments_.size() + 8), classes = static_cast<double>(classes_);
    return {most.margin + 1, most.sum + extra, most.dense + classes + extra};
  }

  void rows(const Vec& u, Vec* losses, Vec& margins) override {
    margins.resize(row_count() * classes_);
    for_each_segment([&](Segment& s, Index place) {
      double* out = margins.data() + place * classes_;
      s.pass.visit([&](const auto& x, auto& w) { kernels::softmax_margins(x, classes_, u.data(), out, w); });
    });
    if (!losses) return;
    losses->resize(row_count());
    for_each_segment([&](Segment& s, Index place) {
      for (Index i = 0; i < s.rows; ++i) {
        const auto m = margins.segment((place + i) * classes_, classes_).array();
        const double top = m.maxCoeff();
        (*losses)[place + i] = top + std::log((m - top).exp().sum()) - m[s.labels[i]];
      }
    });
  }

  void slopes(const Vec& u, Vec& out) override {
    rows(u, nullptr, out);
    for_each_segment([&](Segment& s, Index place) {
      for (Index i = 0; i < s.rows; ++i) {
        auto p = out.segment((place + i) * classes_, classes_);
        p = (p.array() - p.maxCoeff()).exp();
        p /= p.sum();
        p[s.labels[i]] -= 1;
      }
    });
  }

 private:
  struct Segment {
    Segment(const Samples& samples, RowRange of, Index classes)
        : labels(samples.classes->data() + of.first),
          weights(samples.weights ? samples.weights->data() + of.first : nullptr),
          range(of),
          rows(of.second - of.first),
          pass(*samples.matrix, of, classes) {
      const ModelMatrix& x = *samples.matrix;
      if (x.sparse()) {
        gram_depth = kernels::SparseChunking(x.sparse_rows(of)).gram_depth();
        return;
      }
      gram_depth = kernels::Chunking(rows, x.dense_rows(of).stride).gram_depth();
      if (!SoftmaxMoments::worth_while(classes)) return;
      moments.emplace(rows, x.features() + 1, classes);
      gram_depth = std::max(gram_depth, moments->depth());
    }

    const int* labels;
    const double* weights;
    RowRange range;
    Index rows;
    RowPass<kernels::SoftmaxWorkspace, kernels::SoftmaxWorkspace> pass;
    double gram_depth = 0;
    std::optional<SoftmaxMoments> moments;
    std::optional<RowPass<kernels::Workspace, kernels::SparseWorkspace>> gram_pass;
  };

  /// [X 1]ᵀ D [X 1]
  void gram(Segment& s, const double* weighting, Mat& out) {
    if (!s.gram_pass) s.gram_pass.emplace(*samples_.matrix, s.range);
    s.gram_pass->visit([&](const auto& x, auto& w) { kernels::gram(x, weighting, out.data(), w); });
  }

  /// One product for each pair of classes.
  void add_pairs(Segment& s, const double* probabilities, Mat& out) {
    const Index c = classes_, n = size_ / c;
    block_.resize(n, n);
    weights_.resize(s.rows);
    for (Index a = 0; a < c; ++a)
      for (Index b = 0; b <= a; ++b) {
        // p_a(1 − p_a) on the diagonal, −p_a·p_b beside it; the kernel takes weights ≥ 0.
        for (Index i = 0; i < s.rows; ++i) {
          const double* p = probabilities + i * c;
          weights_[i] = (s.weights ? s.weights[i] : 1) * p[a] * (a == b ? 1 - p[a] : p[b]);
        }
        gram(s, weights_.data(), block_);
        const double sign = a == b ? 1 : -1;
        for (Index j = 0; j < n; ++j)
          for (Index i = 0; i < n; ++i) {
            out(i * c + a, j * c + b) += sign * block_(i, j);
            if (a != b) out(j * c + b, i * c + a) += sign * block_(i, j);
          }
      }
  }

  template <class Work>
  void for_each_segment(Work&& work) {
    Index place = 0;
    for (Segment& segment : segments_) {
      work(segment, place);
      place += segment.rows;
    }
  }

  Index classes_;
  double inverse_weight_;
  Index size_;
  std::vector<Segment> segments_;
  Vec scratch_, weights_;
  Mat block_;
  Vec curvature_, curvature_point_;  // probabilities at the last u whose gradient was asked for
  bool curvature_valid_ = false;
};

}  // namespace

std::unique_ptr<DataLoss> make_softmax_loss(Index classes, Samples samples, std::vector<RowRange> ranges) {
  return std::make_unique<SoftmaxLoss>(classes, std::move(samples), std::move(ranges));
}

}  // namespace bilevel::problems
