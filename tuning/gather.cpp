#include "gather.hpp"

namespace tuning {

namespace data = bilevel::data;
using bilevel::problems::ModelMatrix;

std::shared_ptr<const ModelMatrix> gather(const std::vector<data::Dataset>& files,
                                          const std::vector<Place>& rows, const std::vector<Index>& columns,
                                          const Eigen::VectorXd& shift, const Eigen::VectorXd& scale,
                                          Index& nonzeros) {
  const auto n = static_cast<Index>(rows.size()), d = static_cast<Index>(columns.size());
  if (!files[0].sparse()) {
    nonzeros = n * d;
    return std::make_shared<ModelMatrix>(n, d, [&](Index i, double* out) {
      const Place& place = rows[static_cast<std::size_t>(i)];
      const double* in = files[static_cast<std::size_t>(place.file)].dense_rows().row(place.row).data();
      for (Index j = 0; j < d; ++j) out[j] = (in[columns[static_cast<std::size_t>(j)]] - shift[j]) / scale[j];
    });
  }
  std::vector<int> place_of(static_cast<std::size_t>(files[0].features()), -1);
  for (Index j = 0; j < d; ++j)
    place_of[static_cast<std::size_t>(columns[static_cast<std::size_t>(j)])] = static_cast<int>(j);
  ModelMatrix::Sparse x(n, d);
  nonzeros = 0;
  for (const data::Dataset& file : files) nonzeros += file.nonzeros();
  x.reserve(nonzeros);
  for (Index i = 0; i < n; ++i) {
    x.startVec(i);
    const Place& place = rows[static_cast<std::size_t>(i)];
    const data::SparseRows& from = files[static_cast<std::size_t>(place.file)].sparse_rows();
    for (data::SparseRows::InnerIterator it(from, place.row); it; ++it)
      if (const int j = place_of[static_cast<std::size_t>(it.col())]; j >= 0)
        x.insertBack(i, j) = it.value() / scale[j];
  }
  x.finalize();
  nonzeros = x.nonZeros();
  return std::make_shared<ModelMatrix>(std::move(x));
}

}  // namespace tuning
