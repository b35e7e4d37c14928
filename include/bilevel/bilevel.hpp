#pragma once

// Everything public, room by room.
#include <bilevel/adjoint/make_adjoint_solver.hpp>
#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/outcome/atomic_file.hpp>
#include <bilevel/outer/search.hpp>
#include <bilevel/outer/solve.hpp>
#include <bilevel/problem/adapter.hpp>
#include <bilevel/problem/check.hpp>
#include <bilevel/problem/counted.hpp>
#include <bilevel/problem/differenced.hpp>
#include <bilevel/problem/functions.hpp>
#include <bilevel/problems/registry.hpp>
#include <bilevel/space/eigen.hpp>
#include <bilevel/version.hpp>
