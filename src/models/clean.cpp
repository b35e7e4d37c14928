#include <bilevel/models/clean.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/problems/sample_weights.hpp>

#include "stoppable.hpp"

namespace bilevel::models {
namespace {

namespace problems = bilevel::problems;
using bilevel::Status;

/// The class of the largest margin and the probability of the row's own label, row by row.
struct Verdicts {
  std::vector<int> predicted;
  std::vector<double> own;
  double accuracy = 0;
};

Verdicts judge(const CleanData& c, problems::RowRange range, const Vec& phi) {
  const auto classes = static_cast<Index>(c.classes.size());
  const auto loss = problems::make_softmax_loss(classes, c.samples, {range});
  Vec losses, margins;
  loss->rows(phi, &losses, margins);
  Verdicts v;
  Index right = 0;
  for (Index i = 0; i < range.second - range.first; ++i) {
    Index best = 0;
    margins.segment(i * classes, classes).maxCoeff(&best);
    v.predicted.push_back(static_cast<int>(best));
    v.own.push_back(std::exp(-losses[i]));
    right += best == (*c.samples.classes)[static_cast<std::size_t>(range.first + i)];
  }
  v.accuracy = static_cast<double>(right) / static_cast<double>(range.second - range.first);
  return v;
}

/// One thread for passes of a fraction of a millisecond: there waiting for one another costs more than it
/// saves, much more where other programs want the cores too. Results do not depend on it.
class FewThreads {
 public:
  explicit FewThreads(const CleanData& c) : before_(problems::kernels::threads()) {
    const double cells = static_cast<double>(c.nonzeros) * static_cast<double>(c.training_rows) /
                         static_cast<double>(c.samples.matrix->rows());
    if (cells * static_cast<double>(c.classes.size()) < 2e6) problems::kernels::set_threads(1);
  }
  ~FewThreads() { problems::kernels::set_threads(before_); }
  FewThreads(const FewThreads&) = delete;
  FewThreads& operator=(const FewThreads&) = delete;

 private:
  int before_;
};

CleanTruth truth_of(const CleanData& c, const Cleaned& r) {
  CleanTruth t;
  Index found = 0;
  for (std::size_t k = 0; k < r.order.size(); ++k) {
    const auto i = static_cast<std::size_t>(r.order[k]);
    const bool corrupted = (*c.samples.classes)[i] != c.original[i];
    t.corrupted += corrupted;
    found += corrupted && static_cast<Index>(k) < r.flagged;
  }
  const auto ratio = [](Index a, Index b) {
    return b > 0 ? static_cast<double>(a) / static_cast<double>(b) : 0.0;
  };
  t.precision = ratio(found, r.flagged);
  t.recall = ratio(found, t.corrupted);
  t.f1 = ratio(2 * found, r.flagged + t.corrupted);
  return t;
}

/// Which training rows look mislabelled, and all of them by suspicion.
void rank_rows(const CleanData& c, double threshold, const Verdicts& training, Cleaned& r) {
  // Some rows lose their weight although the model agrees with their label: without them it serves the
  // trusted rows still better. That says little about their labels, so they do not count as mislabelled.
  std::vector<bool> suspicious(static_cast<std::size_t>(c.training_rows));
  for (Index i = 0; i < c.training_rows; ++i) {
    const auto row = static_cast<std::size_t>(i);
    const bool light = r.weights[i] < threshold;
    suspicious[row] = light && r.predicted[row] != (*c.samples.classes)[row];
    r.light += light;
    r.flagged += suspicious[row];
  }
  // Many weights end at a bound: among equals, the label that the model believes least comes first.
  r.order.resize(static_cast<std::size_t>(c.training_rows));
  std::iota(r.order.begin(), r.order.end(), Index{0});
  std::stable_sort(r.order.begin(), r.order.end(), [&](Index a, Index b) {
    const auto i = static_cast<std::size_t>(a), k = static_cast<std::size_t>(b);
    if (suspicious[i] != suspicious[k]) return static_cast<bool>(suspicious[i]);
    if (r.weights[a] != r.weights[b]) return r.weights[a] < r.weights[b];
    return training.own[i] < training.own[k];
  });
  for (Index k = 0; k < r.flagged; ++k) {
    const auto i = static_cast<std::size_t>(r.order[static_cast<std::size_t>(k)]);
    r.flagged_rows.push_back(r.rows[i]);
  }
  std::sort(r.flagged_rows.begin(), r.flagged_rows.end());
}

}  // namespace

bool Cleaned::trustworthy() const {
  return (summary.status == Status::converged || summary.status == Status::relative_decrease) &&
         summary.certificate.verdict == bilevel::Verdict::trusted;
}

Cleaned clean(CleaningData data, const CleanOptions& options, const TuneControl& control) {
  return clean(prepare_clean(std::move(data), options), options, control);
}

Cleaned clean(const CleanData& c, const CleanOptions& options, const TuneControl& asked) {
  options.validate().throw_if_any();
  const TuneControl control = stoppable(asked);
  const std::string identity = control.identity.empty() && !control.checkpoint.empty() ? identity_of(c) : control.identity;
  const bilevel::KeptRun kept(control.checkpoint);
  kept.require_place(control.resume, identity);
  bilevel::Stopwatch watch;
  const FewThreads few(c);
  Cleaned r;
  r.classes = c.classes;
  r.rows = c.source_rows;
  if (r.rows.empty()) {  // made by hand
    r.rows.resize(static_cast<std::size_t>(c.training_rows));
    std::iota(r.rows.begin(), r.rows.end(), Index{1});
  }
  r.labels.assign(c.samples.classes->begin(), c.samples.classes->begin() + c.training_rows);
  r.warnings = c.warnings;
  problems::SampleWeights problem(c.samples, static_cast<Index>(c.classes.size()), c.training(), c.trusted(),
                                  c.lambda);
  const bilevel::StopToken stop(control.interrupted, options.seconds);
  problem.obey(&stop);
  const auto inner = bilevel::make_inner_solver<Vec>("trust-region", problem);

  control.progress("a plain fit of all rows");
  // σ(40) is one in this arithmetic.
  inner->set_tolerance(1e-6);
  const Vec plain = inner->solve(Vec::Constant(c.training_rows, 40.0), 0, problem.initial_phi()).phi;
  r.loss_before = problem.outer(plain, problem.initial_theta(), {});
  if (c.test_rows > 0) r.accuracy_before = judge(c, c.test(), plain).accuracy;

  // All features have one scale, so conjugate gradients need no preconditioner. Adam's steps have the same
  // size for every weight, however small its gradient: rows get apart at once, and none is thrown to a bound,
  // from where the flat ends of σ would not let it return.
  // λ is a global μ: sharper tolerances make a certificate good at less cost than eigenvalues do.
  bilevel::EstimatorOptions estimation;
  estimation.certificate.dense_limit = estimation.certificate.factor_limit = 0;
  const auto estimator = bilevel::make_estimator<Vec>("implicit-cg", problem, *inner, estimation);
  const auto optimizer = bilevel::make_adam({.step = 0.5});
  bilevel::SolveOptions solving;
  solving.ordinary_scale = 0;  // a small loss is a good one, in whatever unit
  solving.max_iterations = options.iterations;
  solving.relative_decrease = options.decrease;
  solving.stop = &stop;
  solving.tolerances = {.inner = 1e-6, .adjoint = 1e-6, .floor = 1e-11};
  solving.box = {Vec::Constant(c.training_rows, -clean_bound), Vec::Constant(c.training_rows, clean_bound)};
  solving.identity = identity;
  solving.checkpoint = control.checkpoint;
  solving.resume = control.resume && kept.exists();
  solving.callback = [&](const bilevel::HistoryEntry& h) {
    control.progress(
        fmt::format("step {:>3}  loss on the trusted rows {:.6g} (plain fit {:.6g})  gradient "
                    "{:.1e} ± {:.0e} ({})",
                    h.iteration, h.outer_value, r.loss_before, h.gradient_norm, h.bound, name(h.verdict)));
    return (!control.callback || control.callback(h)) && !control.interrupted();
  };
  r.summary = bilevel::solve<Vec>(*estimator, *optimizer, problem.initial_theta(), solving);
  r.interrupted = r.summary.status == Status::interrupted;

  r.weights = (1 + (-r.summary.theta.array()).exp()).inverse();
  const bool settled = r.summary.phi.size() > 0;
  const Vec& phi = settled ? r.summary.phi : plain;
  const Verdicts training = judge(c, c.training(), phi);
  r.predicted = training.predicted;
  r.loss_after = problem.outer(phi, r.summary.theta, {});
  if (c.test_rows > 0) r.accuracy_after = judge(c, c.test(), phi).accuracy;

  rank_rows(c, options.threshold, training, r);
  if (!c.original.empty()) r.truth = truth_of(c, r);

  if (!(r.loss_after < r.loss_before))
    r.warnings.push_back(
        fmt::format("the learned weights do not help: the loss on the trusted rows is {:.6g}, with all "
                    "weights alike {:.6g}; try another CleanOptions.lambda or more trusted rows",
                    r.loss_after, r.loss_before));
  if (r.accuracy_before && *r.accuracy_after < *r.accuracy_before)
    r.warnings.push_back(fmt::format(
        "accuracy on the test rows fell from {:.4f} to {:.4f}: the {} weights follow the {} trusted rows too "
        "closely; trust more rows, or try a larger CleanOptions.lambda",
        *r.accuracy_before, *r.accuracy_after, c.training_rows, c.trusted_rows));
  r.seconds = watch.seconds();
  if (control.forget && !unfinished(r.summary.status)) kept.forget();
  return r;
}

}  // namespace bilevel::models
