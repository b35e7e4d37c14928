// expect: this is a problem already
#include <bilevel/problem/adapter.hpp>
#include <bilevel/problems/quadratic.hpp>

void wrap(bilevel::problems::Quadratic& problem) {
  bilevel::make_problem(std::ref(problem));
}
