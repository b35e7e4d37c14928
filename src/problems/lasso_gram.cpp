#include "problems/lasso_gram.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <cblas.h>

#include <bilevel/problem/gamma.hpp>

#include "threads/one_blas_thread.hpp"
#include "problems/kernels/pieces.hpp"

namespace bilevel::problems {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

namespace {

constexpr Index rows_in_block = 256;
constexpr Index columns_in_chunk = 32;

const double* weights_of(const DataLoss& loss) {
  return loss.samples().weights ? loss.samples().weights->data() : nullptr;
}

}  // namespace

Lasso::RoundingSizes::RoundingSizes(const DataLoss& loss) : label_size(0), sum_depth(0) {
  const Samples& s = loss.samples();
  double squares = 0;
  for (const auto& range : loss.ranges()) {
    for (Index i = range.first; i < range.second; ++i) {
      const double whole = std::abs((*s.labels)[i]) + (s.offsets ? std::abs((*s.offsets)[i]) : 0);
      squares += (s.weights ? (*s.weights)[i] : 1) * whole * whole;
    }
    sum_depth = std::max(
        sum_depth,
        s.matrix->sparse()
            ? kernels::SparseChunking(s.matrix->sparse_rows(range)).sum_depth()
            : kernels::Chunking(range.second - range.first, s.matrix->dense_rows(range).stride).sum_depth());
  }
  const double rows = static_cast<double>(loss.row_count());
  label_size = std::sqrt(squares / loss.total_weight()) * (1 + gamma(2 * rows + 16));
  sum_depth += static_cast<double>(loss.ranges().size());
}

Lasso::Gram::Gram(DataLoss& training, const Standardisation& standardisation, bool intercept)
    : training_(training), standardisation_(standardisation), intercept_(intercept) {
  const Index d = training.samples().matrix->features();
  slot_.assign(at(d), -1);
  RowCurvature curvature;
  training.curvature_at(Vec::Zero(d + 1), curvature);
  Vec with_intercept(d + 1);
  training.least_curvatures(curvature, with_intercept);
  stored_means_ = with_intercept.head(d);
  centre_ = intercept ? stored_means_ : standardisation.shift;
  means_ = intercept
               ? Vec((stored_means_ - standardisation.shift).cwiseProduct(standardisation.inverse_scale))
               : Vec(Vec::Zero(d));
  if (d <= few) hold_all();
}

void Lasso::Gram::hold_all() {
  const Index d = stored_means_.size();
  RowCurvature curvature;
  training_.curvature_at(Vec::Zero(d + 1), curvature);
  Mat stored;
  if (!training_.dense(curvature, stored)) return;
  const Vec& scale = standardisation_.inverse_scale;
  c_.resize(d, d);
  for (Index k = 0; k < d; ++k) {
    slot_[at(k)] = k;
    features_.push_back(k);
    for (Index j = 0; j < d; ++j)
      c_(j, k) = scale[j] * scale[k] *
                 (stored(j, k) - centre_[j] * stored_means_[k] - stored_means_[j] * centre_[k] +
                  centre_[j] * centre_[k]);
    c_(k, k) = std::max(0.0, c_(k, k));
  }
}

void Lasso::Gram::forget() {
  for (const Index j : features_) slot_[at(j)] = -1;
  features_.clear();
}

void Lasso::Gram::hold(const std::vector<Index>& wanted) {
  const auto missing = std::count_if(wanted.begin(), wanted.end(), [&](Index j) { return slot_[at(j)] < 0; });
  if (missing > 0 && count() + missing > most) forget();
  const Index before = count();
  for (const Index j : wanted)
    if (slot_[at(j)] < 0) {
      slot_[at(j)] = count();
      features_.push_back(j);
    }
  const Index now = count();
  if (now == before) return;
  if (now > c_.rows()) {
    const Index capacity = std::min(std::max(now, 2 * c_.rows()), stored_means_.size());
    c_.conservativeResize(capacity, capacity);
  }
  c_.block(0, before, now, now - before).setZero();
  training_.samples().matrix->sparse() ? add_sparse(before) : add_dense(before);
  c_.block(0, before, now, now - before) /= training_.total_weight();
  if (training_.samples().matrix->sparse()) {
    const Vec& scale = standardisation_.inverse_scale;
    for (Index b = before; b < now; ++b)
      for (Index a = 0; a <= b; ++a) {
        const Index j = features_[at(a)], k = features_[at(b)];
        c_(a, b) = scale[j] * scale[k] *
                   (c_(a, b) - centre_[j] * stored_means_[k] - stored_means_[j] * centre_[k] +
                    centre_[j] * centre_[k]);
      }
  }
  for (Index b = before; b < now; ++b) {
    c_(b, b) = std::max(0.0, c_(b, b));
    for (Index a = 0; a < b; ++a) c_(b, a) = c_(a, b);
  }
}

/// Blocks of rows are gathered and centred, so that nothing cancels. New columns are cut into chunks that do
/// not depend on the number of threads, and so are the sums.
void Lasso::Gram::add_dense(Index before) {
  const Index now = count();
  const double* weights = weights_of(training_);
  const Vec& scale = standardisation_.inverse_scale;
  // One row after another, as they are stored: a column of a wide matrix is one cache miss for each element.
  ModelMatrix::RowMajor block(rows_in_block, now);
  const auto stride = static_cast<int>(now);
  const OneBlasThread one;
  const Index chunks = (now - before + columns_in_chunk - 1) / columns_in_chunk;
  for (const auto& range : training_.ranges()) {
    const kernels::View view = training_.samples().matrix->dense_rows(range);
    for (Index first = 0; first < view.rows; first += rows_in_block) {
      const Index rows = std::min(rows_in_block, view.rows - first);
      kernels::for_each_piece(rows, rows * now, [&](Index i) {
        const double* x = view.x + (first + i) * view.stride;
        const double root = weights ? std::sqrt(weights[range.first + first + i]) : 1;
        for (Index a = 0; a < now; ++a) {
          const Index j = features_[at(a)];
          block(i, a) = (x[j] - centre_[j]) * scale[j] * root;
        }
      });
      // Sixteen products in the time of an element that is gathered.
      kernels::for_each_piece(chunks, rows * now * (now - before) / 16, [&](Index chunk) {
        const Index start = before + chunk * columns_in_chunk,
                    width = std::min(columns_in_chunk, now - start);
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, static_cast<int>(start + width),
                    static_cast<int>(width), static_cast<int>(rows), 1, block.data(), stride,
                    block.data() + start, stride, 1, c_.data() + start * c_.rows(),
                    static_cast<int>(c_.rows()));
      });
    }
  }
}

void Lasso::Gram::add_sparse(Index before) {
  const Index now = count();
  const double* weights = weights_of(training_);
  const ModelMatrix& matrix = *training_.samples().matrix;
  // The rows restricted to what is held: (slot, value) pairs.
  std::vector<std::pair<Index, double>> kept;
  std::vector<std::size_t> starts{0};
  std::vector<double> row_weights;
  for (const auto& [first, last] : training_.ranges())
    for (Index i = first; i < last; ++i) {
      bool fresh = false;
      const std::size_t start = kept.size();
      matrix.for_each(i, [&](Index j, double x) {
        const Index slot = slot_[at(j)];
        if (slot < 0) return;
        fresh = fresh || slot >= before;
        kept.emplace_back(slot, x);
      });
      if (!fresh) {
        kept.resize(start);
        continue;
      }
      starts.push_back(kept.size());
      row_weights.push_back(weights ? weights[i] : 1);
    }
  const Index chunks = (now - before + columns_in_chunk - 1) / columns_in_chunk;
  kernels::for_each_piece(chunks, static_cast<Index>(kept.size()) * chunks, [&](Index chunk) {
    const Index start = before + chunk * columns_in_chunk, end = std::min(start + columns_in_chunk, now);
    for (std::size_t i = 0; i + 1 < starts.size(); ++i)
      for (std::size_t p = starts[i]; p < starts[i + 1]; ++p) {
        const Index b = kept[p].first;
        if (b < start || b >= end) continue;
        const double wx = row_weights[i] * kept[p].second;
        for (std::size_t q = starts[i]; q < starts[i + 1]; ++q)
          if (kept[q].first <= b) c_(kept[q].first, b) += wx * kept[q].second;
      }
  });
}

void Lasso::Gram::hessian(const std::vector<Index>& features, Mat& out) const {
  const Index k = static_cast<Index>(features.size());
  out.resize(k + intercept_, k + intercept_);
  for (Index b = 0; b < k; ++b) {
    const double* from = column(slot(features[at(b)]));
    const double mean = means_[features[at(b)]];
    for (Index a = 0; a < k; ++a) out(a, b) = from[slot(features[at(a)])] + means_[features[at(a)]] * mean;
    if (intercept_) out(k, b) = out(b, k) = mean;
  }
  if (intercept_) out(k, k) = 1;
}

double Lasso::Gram::depth() const {
  const double rows = static_cast<double>(training_.row_count());
  // Gathered: a block, the blocks, the map. Sparse: the rows of a column in turn. All held: the kernels' own.
  const double gathered = static_cast<double>(rows_in_block) + rows / static_cast<double>(rows_in_block) +
                          static_cast<double>(training_.ranges().size());
  if (stored_means_.size() <= few) return training_.depths().dense + 24;
  return (training_.samples().matrix->sparse() ? rows : gathered) + 24;
}

}  // namespace bilevel::problems
