// Bytes that an outer gradient takes against the number of inner steps: implicit differentiation, which
// forgets the way, and backpropagation through all steps, with every state held or only some. Prints
// markdown.
//   bench_memory [largest number of steps]

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>

#include <bilevel/adjoint/conjugate_gradient.hpp>
#include <bilevel/gradient/implicit.hpp>
#include <bilevel/gradient/unrolled.hpp>
#include <bilevel/inner/gradient_descent.hpp>
#include <bilevel/inner/minimiser.hpp>
#include <bilevel/problems/quadratic.hpp>

namespace {
// Of the whole heap, whoever takes it: operator new and Eigen both end in malloc.
std::atomic<long> heap{0}, heap_peak{0};

void* taken(void* block) {
  if (!block) return block;
  const long now = heap += static_cast<long>(malloc_usable_size(block));
  if (now > heap_peak) heap_peak = now;
  return block;
}
void given(void* block) {
  if (block) heap -= static_cast<long>(malloc_usable_size(block));
}
}  // namespace

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void* block);

void* malloc(std::size_t size) noexcept {
  return taken(__libc_malloc(size));
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  return taken(__libc_calloc(count, size));
}
void* realloc(void* old, std::size_t size) noexcept {
  given(old);
  return taken(__libc_realloc(old, size));
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return taken(__libc_memalign(alignment, size));
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size) noexcept {
  *out = taken(__libc_memalign(alignment, size));
  return *out ? 0 : 12;
}
void free(void* block) noexcept {
  given(block);
  __libc_free(block);
}
}

namespace {

using namespace bilevel;
using Vec = Eigen::VectorXd;

std::unique_ptr<Step<Vec>> gradient_descent() {
  return std::make_unique<GradientDescent<Vec>>();
}

std::string in_kib(std::size_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / 1024);
}

/// One line of the table: `make` gives an estimator, whose whole life is measured.
template <class Make>
void measure(long steps, const Vec& theta, Make make) {
  const long before = heap;
  heap_peak = before;
  const Stopwatch watch;
  std::size_t ledger = 0;
  double gradient_norm = 0;
  std::string name;
  long gradients = 0;
  {
    const auto estimator = make();
    const Estimate<Vec> e = estimator->estimate(theta, {});
    name = estimator->name();
    ledger = e.cost.bytes;
    gradients = e.cost.inner_gradients;
    gradient_norm = norm(e.gradient);
  }
  const double seconds = watch.seconds();
  fmt::print("| {} | {} | {} | {} | {} | {:.3g} | {:.12g} |\n", steps, name, in_kib(ledger),
             in_kib(static_cast<std::size_t>(heap_peak - before)), gradients, seconds, gradient_norm);
  std::fflush(stdout);
}

}  // namespace

int main(int arguments, char** values) {
  const long most = arguments > 1 ? std::atol(values[1]) : 100000;
  auto problem = problems::Quadratic::random({.phi = 100, .theta = 10, .condition = 1e4, .seed = 1});
  const Vec theta = Vec::Ones(10), phi = problem.initial_phi();
  fmt::print(
      "Quadratic, 100 inner variables (a state is {} KiB), 10 parameters, condition number 10⁴, T gradient "
      "steps; "
      "certificates off. The ledger counts the method's vectors; the heap also holds the problem's "
      "linearisations, "
      "{} KiB each.\n\n"
      "| T | estimator | ledger, KiB | heap peak, KiB | inner gradients | seconds | ‖∇‖ |\n"
      "|---:|---|---:|---:|---:|---:|---:|\n",
      in_kib(bytes_of(phi)), in_kib(sizeof(double) * 100 * 100));
  const CertificateOptions off{.enabled = false};
  for (long steps = 10; steps <= most; steps *= 10) {
    measure(steps, theta, [&]() -> std::unique_ptr<Estimator<Vec>> {
      // The estimator refers to the minimiser: hold both.
      struct Both final : Estimator<Vec> {
        Both(Problem<Vec>& problem, long steps, const CertificateOptions& off)
            : inner(problem, gradient_descent(), {.gradient_tolerance = 0, .max_iterations = steps}),
              implicit(problem, inner, std::make_unique<ConjugateGradient<Vec>>(), {.certificate = off}) {}
        std::string_view name() const override { return implicit.name(); }
        Estimate<Vec> estimate(const Vec& t, const Warm<Vec>& w) override { return implicit.estimate(t, w); }
        Vec initial_phi() const override { return implicit.initial_phi(); }
        Vec initial_theta() const override { return implicit.initial_theta(); }
        Minimiser<Vec> inner;
        Implicit<Vec> implicit;
      };
      return std::make_unique<Both>(problem, steps, off);
    });
    const auto unrolled = [&](std::size_t snapshots) {
      UnrolledOptions options{.run = {.steps = steps}, .certificate = off};
      if (snapshots > 0)
        options.memory_budget = Unrolled<Vec>::bytes_for(phi, theta, *gradient_descent(), snapshots);
      measure(steps, theta,
              [&] { return std::make_unique<Unrolled<Vec>>(problem, gradient_descent(), options); });
    };
    unrolled(0);
    unrolled(static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(steps)))));
    unrolled(static_cast<std::size_t>(std::ceil(std::log2(static_cast<double>(steps)))));
  }
  return 0;
}
