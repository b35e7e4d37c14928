#include <bilevel/inner/gradient_descent.hpp>
#include <bilevel/inner/heavy_ball.hpp>
#include <bilevel/inner/impl/adam.hpp>
#include <bilevel/inner/impl/backtracking.hpp>
#include <bilevel/inner/impl/backtracking_descent.hpp>
#include <bilevel/inner/impl/curvature_scale.hpp>
#include <bilevel/inner/impl/lbfgs.hpp>
#include <bilevel/inner/impl/minimiser.hpp>
#include <bilevel/inner/impl/momentum_step.hpp>
#include <bilevel/inner/impl/nudged.hpp>
#include <bilevel/inner/impl/wolfe_search.hpp>
#include <bilevel/inner/nesterov.hpp>

namespace bilevel {

template class Nudged<Eigen::VectorXd>;
template class Nudged<Eigen::VectorXf>;
template class Minimiser<Eigen::VectorXd>;
template class Minimiser<Eigen::VectorXf>;
template class CurvatureScale<Eigen::VectorXd>;
template class CurvatureScale<Eigen::VectorXf>;
template class MomentumStep<Eigen::VectorXd, GradientDescentOptions>;
template class MomentumStep<Eigen::VectorXf, GradientDescentOptions>;
template class Backtracking<Eigen::VectorXd>;
template class Backtracking<Eigen::VectorXf>;
template class BacktrackingDescent<Eigen::VectorXd>;
template class BacktrackingDescent<Eigen::VectorXf>;
template class MomentumStep<Eigen::VectorXd, HeavyBallOptions>;
template class MomentumStep<Eigen::VectorXf, HeavyBallOptions>;
template class MomentumStep<Eigen::VectorXd, NesterovOptions>;
template class MomentumStep<Eigen::VectorXf, NesterovOptions>;
template class Adam<Eigen::VectorXd>;
template class Adam<Eigen::VectorXf>;
template class WolfeSearch<Eigen::VectorXd>;
template class WolfeSearch<Eigen::VectorXf>;
template class Lbfgs<Eigen::VectorXd>;
template class Lbfgs<Eigen::VectorXf>;

}  // namespace bilevel
