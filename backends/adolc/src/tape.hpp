#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include <adolc/adolc.h>

#include <Eigen/Core>

#include "coloring.hpp"

namespace bilevel::adolc {

/// Whether a replay is still the function that was recorded.
enum class Match {
  smooth,  ///< it is
  kink,    ///< it is, and the point is a kink of it
  other,   ///< a comparison falls the other way here: what came out is worth nothing
};

/// One of ADOL-C's tapes: y = f(x), recorded once and replayed. ADOL-C keeps its state in global variables,
/// so that tapes of all threads take turns. Its store of live numbers never shrinks: a small tape that is
/// recorded after a large one costs two nanoseconds a sweep for each number that the large one held at once.
class Tape {
 public:
  using Function = std::function<void(std::span<adouble> x, std::span<adouble> y)>;

  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Records f at x. Throws InvalidInput beyond `most_operations`, and whatever f throws.
  void record(std::span<const double> x, Index outputs, double most_operations, const Function& f);
  bool recorded() const { return operations_ > 0; }
  std::size_t operations() const { return operations_; }
  std::size_t bytes() const;

  /// y = f(x).
  Match values(const double* x, double* y);
  /// Whether x is a kink, of |·| as well, which `values` does not tell.
  Match look(const double* x);
  /// y = f(x), g = Jᵀu.
  Match gradient(const double* x, const double* u, double* y, double* g);
  /// dy = J·dx.
  Match directional(const double* x, const double* dx, double* dy);
  /// One sweep forward and one back: h = ∂²(uᵀf)·dx, for one output.
  Match second(const double* x, const double* dx, double* h);

  /// For each x_j, whether an output depends on it at all.
  std::vector<bool> dependence();
  /// For each x_j, the k with ∂²f/∂x_j∂x_k not zero everywhere.
  Pattern second_dependence(const double* x);

 private:
  struct Sizes {
    std::size_t operations, locations, values, taylors;
  };
  template <class Work>
  auto swept(const Work& work);
  /// false where the buffers were too small.
  bool trace(std::span<const double> x, Index outputs, const Sizes& room, const Function& f);

  short tag_;
  int inputs_ = 0, outputs_ = 0;
  std::size_t operations_ = 0;
  Sizes sizes_{};
  std::vector<double> y_, dy_, pairs_;
  std::vector<double*> rows_;
};

/// Held by whoever uses ADOL-C.
std::recursive_mutex& turn();

}  // namespace bilevel::adolc
