#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <bilevel/gradient/certificate.hpp>
#include <bilevel/learning/saved_learner.hpp>
#include <bilevel/outcome/status.hpp>

namespace bilevel::learning {

/// How a learner is learned. What is zero or empty is chosen, to suit learner and tasks (docs/meta.md).
struct MetaOptions {
  LearnerOptions learner = {};
  AdaptationOptions adaptation = {};
  /// Any name that make_estimator knows.
  std::string estimator = "implicit-cg";
  double beta = 0;               ///< strength of the nudge of the ep-… estimators
  long adjoint_steps = 0;        ///< most iterations of phase 2
  double adjoint_tolerance = 0;  ///< relative residual that ends them sooner
  long tasks = 0;                ///< side by side in each step of θ
  long steps = 0;                ///< of θ, by Adam
  double learning_rate = 0;      ///< where it starts; falls to zero along half a cosine
  double clip = 10;              ///< the outer gradient is shortened to this length; > 0
  double seconds = 0;            ///< most seconds of learning; 0: no limit
  long test_tasks = 1000;        ///< on which the result is tested
  long looks = 20;               ///< at a tenth of these tasks, while it learns
  long probe_tasks = 4;          ///< on which the gradient is compared with a tight reference; 0: none
  /// Gradients that are certified while it learns, spread evenly, as far as a tenth of the time allows; 0:
  /// none.
  long certify = 20;
  std::uint64_t seed = 1;  ///< of θ and of all tasks
  at::Device device = at::kCPU;

  Violations validate() const;
};
/// With every choice made.
MetaOptions resolve(MetaOptions options, const TaskForm& form);

/// A mean over tasks, and its standard error.
struct Mean {
  double value = unknown, standard_error = unknown;
  long tasks = 0;
};

/// A look at the learning.
struct MetaPoint {
  long step = 0;
  double training_loss = unknown;   ///< mean of L_out since the last look
  Mean test;                        ///< mean squared error, or share of rows that are right
  double inner_residual = unknown;  ///< mean of ‖∂φ L_in‖ since the last look, per task
  double gradient_norm = unknown;   ///< the same of the outer gradient
  double seconds = 0;
};

/// The gradient that is used beside a tight reference in double precision.
struct GradientProbe {
  long tasks = 0;
  double cosine = unknown, relative_error = unknown;
  double gradient_norm = unknown;  ///< of the reference
  double reference_residual = unknown, reference_adjoint_residual = unknown;
  std::string reference;  ///< what it was, in words
  Certificate certificate, reference_certificate;
};

/// One test task, for people to look at.
struct ShownTask {
  Tasks task;            ///< its own, on the host; where x is one number, the queries are a grid
  Tensor before, after;  ///< answers to the queries
  double judged_before = unknown, judged_after = unknown;  ///< mean squared error, or share that is right
  Tensors points = {};                    ///< x and y of the queries, where a grid stands in their place
  std::vector<std::string> classes = {};  ///< their names, where they have some
};

struct CertifiedMetaGradients {
  long trusted = 0, doubtful = 0, untrusted = 0;
  double seconds = 0;
  std::optional<Certificate> last = {};
  long count() const { return trusted + doubtful + untrusted; }
};

/// A learner, and how it came about.
struct MetaLearned {
  Status status = Status::not_run;
  std::string message;
  SavedLearner learner;
  Mean test;         ///< mean squared error, or share of right rows, of test tasks
  Mean test_before;  ///< the same without adaptation
  std::vector<MetaPoint> curve;
  std::optional<GradientProbe> probe;
  CertifiedMetaGradients certified;
  std::vector<ShownTask> shown;
  long steps = 0;
  double seconds = 0;                 ///< in all
  double seconds_per_step = unknown;  ///< median of a step, without looks
  std::size_t bytes = 0;              ///< that phase 1 and 2 hold
  std::vector<std::string> warnings;
  bool resumed = false;

  /// Of the gradient at the end, by the probe, or of the last that was certified; empty where none was looked
  /// at.
  std::optional<Verdict> verdict() const;
};

/// Who watches a run, and where it is kept.
struct MetaControl {
  std::string checkpoint = {};  ///< the run is kept there while it lasts; empty: nowhere
  bool resume = false;
  bool forget = true;         ///< the file is removed once the run is complete
  std::string identity = {};  ///< empty: run_identity()
  std::function<void(const std::string&)> progress = {};
  std::function<void(const MetaPoint&)> callback = {};
  std::function<bool()> interrupted = {};
};

/// What a kept run must agree with: all but seconds, looks and what is only measured.
std::string run_identity(const TaskData& data, const MetaOptions& resolved);

/// Minimises the mean of L_out over training tasks, which are drawn anew for each step of θ. A run whose
/// inner loop diverges ends there with status diverged, and the last good θ is kept.
MetaLearned meta_learn(const TaskData& data, const MetaOptions& options = {},
                       const MetaControl& control = {});

}  // namespace bilevel::learning
