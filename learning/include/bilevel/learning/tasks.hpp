#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <bilevel/torch/tensor.hpp>

namespace bilevel::learning {

using torch::Tensor;
using torch::Tensors;

/// What the tasks of one kind have in common.
struct TaskForm {
  std::vector<std::int64_t> input;  ///< of one row: {1}, or {1, 28, 28} for a picture
  long outputs = 0;                 ///< numbers to predict, or classes
  bool classes = false;             ///< the targets are classes, as rows with a single 1
  long support = 0, query = 0;      ///< rows of each task to adapt to, and to be judged by

  bool pictures() const { return input.size() == 3; }
  Violations validate() const;
};

/// Tasks side by side: the first axis of each tensor counts the tasks, the second the rows.
struct Tasks {
  Tensor support_x, support_y, query_x, query_y;

  long size() const { return support_x.size(0); }
  /// The numbers of others take the place of these, which stay where they are.
  void write(const Tasks& others);
  Tasks to(at::ScalarType type, const at::Device& device) const;
  /// The first `count` of them; views.
  Tasks first(long count) const;
};

/// Where tasks come from.
class TaskSource {
 public:
  virtual ~TaskSource() = default;
  virtual const TaskForm& form() const = 0;
  /// So many tasks, on the source's device: the same for the same number.
  virtual Tasks draw(long count, std::uint64_t number) const = 0;
  /// What people call the classes of the first task of `draw(count, number)`; none where they have no names.
  virtual std::vector<std::string> class_names(std::uint64_t) const { return {}; }
};

/// What is learned from, and what the result is tested on: other tasks, of other classes where there are
/// some.
struct TaskData {
  std::string source;
  std::shared_ptr<const TaskSource> training, test;
  long training_classes = 0, test_classes = 0;  ///< 0: the tasks have no classes
  bool inverted = false;                        ///< the pictures were light ones, whose paper is made 0
  std::vector<std::string> notes;
  std::string fingerprint;  ///< tells these data from others
};

struct SinusoidOptions {
  long shots = 10, queries = 10;
  double least_amplitude = 0.1, largest_amplitude = 5, largest_phase = 3.14159265358979323846, reach = 5;
  at::Device device = at::kCPU;

  Violations validate() const;
};

/// y = A·sin(x + p): amplitudes A, phases p and inputs x in ±reach are drawn evenly.
TaskData sinusoids(const SinusoidOptions& options = {});

}  // namespace bilevel::learning
