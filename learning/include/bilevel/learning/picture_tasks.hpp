#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <bilevel/learning/tasks.hpp>

namespace bilevel::learning {

struct PictureTaskOptions {
  long ways = 5;      ///< classes of a task
  long shots = 1;     ///< pictures of each class to adapt to
  long queries = 15;  ///< pictures of each class to be judged by, at most
  long height = 28, width = 28;
  /// Training classes turned by a quarter, a half and three quarters of a circle are classes of their own.
  bool rotations = true;
  double test_share = 0.2;  ///< of the classes of a folder without test classes of its own
  std::uint64_t seed = 1;   ///< of the classes that are kept for the test
  at::Device device = at::kCPU;

  Violations validate() const;
};

/// From a folder of class folders with pictures, or of the two IDX files of Omniglot, whose background set is
/// learned from and whose evaluation set is the test. Throws InvalidInput, which says what to do, where a
/// class has too few pictures or there are too few classes.
TaskData picture_tasks(const std::string& folder, const PictureTaskOptions& options = {});

/// Omniglot's two IDX files in this folder, the background set and the evaluation set; empty where they are
/// not both there.
std::vector<std::string> omniglot_files(const std::string& folder);

/// Grey pictures of classes: bytes, 255 for ink.
struct PictureClasses {
  long height = 0, width = 0;
  std::vector<std::vector<std::vector<std::uint8_t>>> pictures;  ///< of each class
  std::vector<std::string> names;
};
/// The same for pictures in memory.
TaskData picture_tasks(const PictureClasses& training, const PictureClasses& test, const std::string& source,
                       const PictureTaskOptions& options = {});

}  // namespace bilevel::learning
