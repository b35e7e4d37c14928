#include <bilevel/adjoint/make_adjoint_solver.hpp>

namespace bilevel {

const std::vector<std::string_view>& adjoint_solver_names() {
  static const std::vector<std::string_view> names{
      "direct",      "cg",       "cg-jacobi", "cg-preconditioned", "cg-inherited", "cg-nystrom",
      "cg-recycled", "minres",   "gmres",     "bicgstab",          "neumann",      "nystrom",
      "inherited",   "identity", "zero"};
  return names;
}

}  // namespace bilevel
