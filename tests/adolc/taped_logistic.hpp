#pragma once

#include <vector>

#include <bilevel/adolc/differentiate.hpp>
#include <bilevel/problems/logistic.hpp>

namespace bilevel::taped {

/// The ready-made logistic problem as a person would write it: rows x_i with the label ±1 behind them, of
/// both parts.
struct LogisticTable {
  Index features = 0, penalties = 0;
  std::vector<double> training, validation;

  explicit LogisticTable(const problems::Logistic& native)
      : features(native.features()), penalties(native.initial_theta().size()) {
    fill(native.x(), native.labels(), training);
    fill(native.validation_x(), native.validation_labels(), validation);
  }

  Rows rows(const std::vector<double>& table) const {
    const Index width = features + 1;
    return {table.data(), static_cast<Index>(table.size()) / width, width};
  }
  template <class T, class Row>
  T loss(const Span<T>& phi, const Row& row) const {
    const auto d = static_cast<std::size_t>(features);
    T margin = 0;
    for (std::size_t j = 0; j < d; ++j) margin += phi[j] * row[j];
    return log(1 + exp(-margin * row[d]));
  }
  template <class T>
  T penalty(const Span<T>& phi, const Span<T>& theta) const {
    T sum = 0;
    for (std::size_t j = 0; j < phi.size(); ++j)
      sum += 0.5 * exp(theta[theta.size() == 1 ? 0 : j]) * phi[j] * phi[j];
    return sum;
  }

 private:
  void fill(const problems::ModelMatrix::DenseMap& x, const Eigen::VectorXd& y,
            std::vector<double>& to) const {
    for (Index i = 0; i < y.size(); ++i) {
      for (Index j = 0; j < features; ++j) to.push_back(x(i, j));
      to.push_back(y[i]);
    }
  }
};

/// All rows on one tape.
struct LogisticLosses : LogisticTable {
  using LogisticTable::LogisticTable;
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    return penalty(phi, theta) + mean<T>(phi, rows(training));
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return mean<T>(phi, rows(validation));
  }

 private:
  template <class T>
  T mean(const Span<T>& phi, const Rows& of) const {
    T sum = 0;
    for (Index i = 0; i < of.count; ++i) sum += loss(phi, of[i]);
    return sum / static_cast<double>(of.count);
  }
};

/// The same, of one row at a time.
struct LogisticRows : LogisticTable {
  using LogisticTable::LogisticTable;
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    return penalty(phi, theta);
  }
  Rows inner_rows() const { return rows(training); }
  Rows outer_rows() const { return rows(validation); }
  template <class T, class Row>
  T inner_row(const Span<T>& phi, const Span<T>&, const Row& row) const {
    return loss(phi, row) / static_cast<double>(inner_rows().count);
  }
  template <class T, class Row>
  T outer_row(const Span<T>& phi, const Span<T>&, const Row& row) const {
    return loss(phi, row) / static_cast<double>(outer_rows().count);
  }
};

inline adolc::TapedOptions sizes_of(Equilibrium<Eigen::VectorXd>& problem) {
  return {.phi = problem.initial_phi(), .theta = problem.initial_theta()};
}

}  // namespace bilevel::taped
