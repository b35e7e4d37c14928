#pragma once

// Problems, gradients and solvers, room by room. A person's data has <bilevel/models/tune.hpp> and its
// neighbours, networks <bilevel/networks/train.hpp>.
#include <bilevel/adjoint/make_adjoint_solver.hpp>
#include <bilevel/data/moments.hpp>
#include <bilevel/data/read.hpp>
#include <bilevel/data/split.hpp>
#include <bilevel/gradient/in_units.hpp>
#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/gradient/sum_of_estimators.hpp>
#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/networks/circuit_solver.hpp>
#include <bilevel/networks/layered_circuit.hpp>
#include <bilevel/networks/netlist.hpp>
#include <bilevel/files/atomic_file.hpp>
#include <bilevel/outer/minimise.hpp>
#include <bilevel/outer/search.hpp>
#include <bilevel/outer/solve.hpp>
#include <bilevel/problem/adapter.hpp>
#include <bilevel/problem/check.hpp>
#include <bilevel/problem/counted.hpp>
#include <bilevel/problem/differenced.hpp>
#include <bilevel/problem/functions.hpp>
#include <bilevel/problems/lasso.hpp>
#include <bilevel/problems/penalised_model.hpp>
#include <bilevel/problems/registry.hpp>
#include <bilevel/problems/sample_weights.hpp>
#include <bilevel/space/eigen.hpp>
#include <bilevel/version.hpp>
