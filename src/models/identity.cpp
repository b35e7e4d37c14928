#include <string_view>

#include <bilevel/encoding/utf8.hpp>
#include <bilevel/models/clean_data.hpp>
#include <bilevel/models/prepared.hpp>
#include <bilevel/outer/checkpoint.hpp>

namespace bilevel::models {
namespace {

std::uint64_t features_checksum(const bilevel::problems::ModelMatrix& matrix) {
  // Column sums stand for the features, weighted by the row: their order matters too.
  Eigen::VectorXd sums = Eigen::VectorXd::Zero(matrix.features());
  for (Index i = 0; i < matrix.rows(); ++i) {
    const double weight = 1 + 1e-3 * static_cast<double>(i % 1009);
    matrix.for_each(i, [&](Index j, double x) { sums[j] += weight * x; });
  }
  return bilevel::checksum(sums);
}

}  // namespace

std::string identity_of(const Prepared& p, const TuneOptions& o) {
  std::uint64_t print = bilevel::checksum(*p.samples.labels);
  for (const Split& split : p.folds)
    print ^= bilevel::checksum(split.standardisation.shift) +
             31 * bilevel::checksum(split.standardisation.inverse_scale);
  print ^= 7 * bilevel::checksum(p.stored_shift) + 17 * bilevel::checksum(p.stored_scale);
  if (p.samples.weights) print ^= 37 * bilevel::checksum(*p.samples.weights);
  if (p.samples.offsets) print ^= 41 * bilevel::checksum(*p.samples.offsets);
  print ^= 43 * features_checksum(*p.samples.matrix);
  for (const Index group : p.penalties.of)
    print = (print ^ static_cast<std::uint64_t>(group)) * 1099511628211ULL;
  return fmt::format(
      "tune {} {:016x} model={} penalty={} prior={} {} intercept={} bounds={}:{}{} grid={}{}{} seed={}",
      as_utf8(p.source), print, name(p.kind()), name(o.penalty), o.prior_width, p.splitting, o.intercept,
      o.lower, o.upper, o.bounds_given ? " fixed" : "", o.grid,
      p.model.loss_kind().parameter.empty()
          ? std::string()
          : fmt::format(" {}={}", p.model.loss_kind().parameter, p.loss_parameter),
      p.network() ? fmt::format(" {} {} {}", name(p.model), fmt::join(p.layers, "-"), name(p.activation))
                  : "",
      o.seed);
}

std::string identity_of(const CleanData& c) {
  const auto& labels = *c.samples.classes;
  return fmt::format(
      "clean {} {:016x} {:016x} rows={}+{} lambda={}", as_utf8(c.source),
      bilevel::checksum(std::string_view(reinterpret_cast<const char*>(labels.data()),
                                         sizeof(labels[0]) * static_cast<std::size_t>(labels.size()))),
      features_checksum(*c.samples.matrix), c.training_rows, c.trusted_rows, c.lambda);
}

}  // namespace bilevel::models
