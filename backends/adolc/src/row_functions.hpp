#pragma once

#include <cmath>
#include <numbers>

#include <bilevel/adolc/row_number.hpp>

namespace bilevel::adolc {

/// Calls use(f, f′, f″) with a function of one number x; the derivatives also get y = f(x).
template <class Use>
void with_function(RowOperation operation, double c, const Use& use) {
  using std::sqrt;
  switch (operation) {
    case RowOperation::negate:
      return use([](double x) { return -x; }, [](double, double) { return -1.0; },
                 [](double, double) { return 0.0; });
    case RowOperation::absolute:
      return use([](double x) { return std::abs(x); },
                 [](double x, double) { return x > 0   ? 1.0
                                               : x < 0 ? -1.0
                                                       : 0.0; },
                 [](double, double) { return 0.0; });
    case RowOperation::power:
      return use([c](double x) { return std::pow(x, c); },
                 [c](double x, double) { return c * std::pow(x, c - 1); },
                 [c](double x, double) { return c * (c - 1) * std::pow(x, c - 2); });
    case RowOperation::exp:
      return use([](double x) { return std::exp(x); }, [](double, double y) { return y; },
                 [](double, double y) { return y; });
    case RowOperation::log:
      return use([](double x) { return std::log(x); }, [](double x, double) { return 1 / x; },
                 [](double x, double) { return -1 / (x * x); });
    case RowOperation::log10:
      return use([](double x) { return std::log10(x); },
                 [](double x, double) { return 1 / (x * std::numbers::ln10); },
                 [](double x, double) { return -1 / (x * x * std::numbers::ln10); });
    case RowOperation::sqrt:
      return use([](double x) { return sqrt(x); }, [](double, double y) { return 0.5 / y; },
                 [](double, double y) { return -0.25 / (y * y * y); });
    case RowOperation::cbrt:
      return use([](double x) { return std::cbrt(x); }, [](double, double y) { return 1 / (3 * y * y); },
                 [](double x, double y) { return -2 / (9 * y * y * x); });
    case RowOperation::sin:
      return use([](double x) { return std::sin(x); }, [](double x, double) { return std::cos(x); },
                 [](double, double y) { return -y; });
    case RowOperation::cos:
      return use([](double x) { return std::cos(x); }, [](double x, double) { return -std::sin(x); },
                 [](double, double y) { return -y; });
    case RowOperation::tan:
      return use([](double x) { return std::tan(x); }, [](double, double y) { return 1 + y * y; },
                 [](double, double y) { return 2 * y * (1 + y * y); });
    case RowOperation::asin:
      return use([](double x) { return std::asin(x); }, [](double x, double) { return 1 / sqrt(1 - x * x); },
                 [](double x, double) { return x / ((1 - x * x) * sqrt(1 - x * x)); });
    case RowOperation::acos:
      return use([](double x) { return std::acos(x); }, [](double x, double) { return -1 / sqrt(1 - x * x); },
                 [](double x, double) { return -x / ((1 - x * x) * sqrt(1 - x * x)); });
    case RowOperation::atan:
      return use([](double x) { return std::atan(x); }, [](double x, double) { return 1 / (1 + x * x); },
                 [](double x, double) { return -2 * x / ((1 + x * x) * (1 + x * x)); });
    case RowOperation::sinh:
      return use([](double x) { return std::sinh(x); }, [](double x, double) { return std::cosh(x); },
                 [](double, double y) { return y; });
    case RowOperation::cosh:
      return use([](double x) { return std::cosh(x); }, [](double x, double) { return std::sinh(x); },
                 [](double, double y) { return y; });
    case RowOperation::tanh:
      return use([](double x) { return std::tanh(x); }, [](double, double y) { return 1 - y * y; },
                 [](double, double y) { return -2 * y * (1 - y * y); });
    case RowOperation::asinh:
      return use([](double x) { return std::asinh(x); }, [](double x, double) { return 1 / sqrt(1 + x * x); },
                 [](double x, double) { return -x / ((1 + x * x) * sqrt(1 + x * x)); });
    case RowOperation::acosh:
      return use([](double x) { return std::acosh(x); }, [](double x, double) { return 1 / sqrt(x * x - 1); },
                 [](double x, double) { return -x / ((x * x - 1) * sqrt(x * x - 1)); });
    case RowOperation::atanh:
      return use([](double x) { return std::atanh(x); }, [](double x, double) { return 1 / (1 - x * x); },
                 [](double x, double) { return 2 * x / ((1 - x * x) * (1 - x * x)); });
    case RowOperation::erf:
      return use([](double x) { return std::erf(x); },
                 [](double x, double) { return 2 * std::numbers::inv_sqrtpi * std::exp(-x * x); },
                 [](double x, double) { return -4 * x * std::numbers::inv_sqrtpi * std::exp(-x * x); });
    case RowOperation::constant:
    case RowOperation::variable:
    case RowOperation::cell:
    case RowOperation::add:
    case RowOperation::subtract:
    case RowOperation::multiply:
    case RowOperation::divide:
    case RowOperation::maximum:
    case RowOperation::minimum:
      return;  // of none or two numbers
  }
}

}  // namespace bilevel::adolc
