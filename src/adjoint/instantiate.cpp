#include <bilevel/adjoint/impl/bicgstab.hpp>
#include <bilevel/adjoint/impl/conjugate_gradient.hpp>
#include <bilevel/adjoint/impl/direct.hpp>
#include <bilevel/adjoint/impl/gmres.hpp>
#include <bilevel/adjoint/impl/identity.hpp>
#include <bilevel/adjoint/impl/linear_run.hpp>
#include <bilevel/adjoint/impl/make_adjoint_solver.hpp>
#include <bilevel/adjoint/impl/minres.hpp>
#include <bilevel/adjoint/impl/neumann.hpp>
#include <bilevel/adjoint/impl/nystrom_sketch.hpp>
#include <bilevel/adjoint/impl/stochastic.hpp>
#include <bilevel/adjoint/impl/zero.hpp>

namespace bilevel {

template class LinearRun<Eigen::VectorXd>;
template class LinearRun<Eigen::VectorXf>;
template class NystromSketch<Eigen::VectorXd>;
template class NystromSketch<Eigen::VectorXf>;
template class Direct<Eigen::VectorXd>;
template class Direct<Eigen::VectorXf>;
template class ConjugateGradient<Eigen::VectorXd>;
template class ConjugateGradient<Eigen::VectorXf>;
template class Minres<Eigen::VectorXd>;
template class Minres<Eigen::VectorXf>;
template class Gmres<Eigen::VectorXd>;
template class Gmres<Eigen::VectorXf>;
template class Bicgstab<Eigen::VectorXd>;
template class Bicgstab<Eigen::VectorXf>;
template class Neumann<Eigen::VectorXd>;
template class Neumann<Eigen::VectorXf>;
template class Stochastic<Eigen::VectorXd>;
template class Stochastic<Eigen::VectorXf>;
template class Identity<Eigen::VectorXd>;
template class Identity<Eigen::VectorXf>;
template class Zero<Eigen::VectorXd>;
template class Zero<Eigen::VectorXf>;

template std::unique_ptr<AdjointSolver<Eigen::VectorXd>> make_adjoint_solver(const AdjointChoice&);
template std::unique_ptr<AdjointSolver<Eigen::VectorXf>> make_adjoint_solver(const AdjointChoice&);
template std::unique_ptr<AdjointSolver<Eigen::VectorXd>> make_adjoint_solver(std::string_view,
                                                                             const AdjointOptions&);
template std::unique_ptr<AdjointSolver<Eigen::VectorXf>> make_adjoint_solver(std::string_view,
                                                                             const AdjointOptions&);

}  // namespace bilevel
