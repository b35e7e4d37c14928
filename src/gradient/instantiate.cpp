#include <bilevel/gradient/impl/exact.hpp>
#include <bilevel/gradient/impl/implicit.hpp>
#include <bilevel/gradient/impl/sensitivity.hpp>
#include <bilevel/gradient/impl/settle_and_certify.hpp>

namespace bilevel {

template Certificate certify(Equilibrium<Eigen::VectorXd>&, Curvature<Eigen::VectorXd>*,
                             const Phases<Eigen::VectorXd>&, const CertificateOptions&);
template Certificate certify(Equilibrium<Eigen::VectorXf>&, Curvature<Eigen::VectorXf>*,
                             const Phases<Eigen::VectorXf>&, const CertificateOptions&);
template Spectrum lanczos_spectrum(Curvature<Eigen::VectorXd>&, const Eigen::VectorXd&, std::uint64_t, int,
                                   const StopToken*);
template Spectrum lanczos_spectrum(Curvature<Eigen::VectorXf>&, const Eigen::VectorXf&, std::uint64_t, int,
                                   const StopToken*);
template Eigen::MatrixXd dense_matrix(Curvature<Eigen::VectorXd>&, const Eigen::VectorXd&);
template Eigen::MatrixXd dense_matrix(Curvature<Eigen::VectorXf>&, const Eigen::VectorXf&);
template Eigen::MatrixXd dense_cross(Curvature<Eigen::VectorXd>&, const Eigen::VectorXd&,
                                     const Eigen::VectorXd&);
template Eigen::MatrixXd dense_cross(Curvature<Eigen::VectorXf>&, const Eigen::VectorXf&,
                                     const Eigen::VectorXf&);
template class Sensitivity<Eigen::VectorXd>;
template class Sensitivity<Eigen::VectorXf>;
template class SettleAndCertify<Eigen::VectorXd>;
template class SettleAndCertify<Eigen::VectorXf>;
template class Implicit<Eigen::VectorXd>;
template class Implicit<Eigen::VectorXf>;
template class Exact<Eigen::VectorXd>;
template class Exact<Eigen::VectorXf>;

}  // namespace bilevel
