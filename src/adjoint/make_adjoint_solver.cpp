#include <bilevel/adjoint/make_adjoint_solver.hpp>

namespace bilevel {

const std::vector<std::string_view>& adjoint_solver_names() {
  static const std::vector<std::string_view> names{"direct",   "cg",    "cg-jacobi", "cg-preconditioned",
                                                   "minres",   "gmres", "bicgstab",  "neumann",
                                                   "identity", "zero"};
  return names;
}

}  // namespace bilevel
