#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <Eigen/Core>

#include "task.hpp"

namespace bilevel::models {

/// A table with columns a, b, c, of which `change` may alter some, and a last column `target`.
struct Table {
  Index rows = 40;
  int classes = 2;  ///< 0: numbers
  std::vector<std::string> split = {};
  std::function<void(Eigen::MatrixXd&)> change = [](Eigen::MatrixXd&) {};

  Eigen::MatrixXd values() const {
    std::mt19937_64 engine(7);
    std::normal_distribution<double> normal;
    Eigen::MatrixXd x(rows, 3);
    for (Index i = 0; i < rows; ++i)
      x.row(i) << normal(engine), 100 + 5 * normal(engine), 0.01 * normal(engine);
    change(x);
    return x;
  }
  std::string target(Index i) const {
    return classes ? fmt::format("class{}", i / 3 % classes)
                   : fmt::format("{}", 3 + 0.5 * static_cast<double>(i % 9));
  }
  std::string text() const {
    const Eigen::MatrixXd x = values();
    std::string out = std::string(split.empty() ? "" : "part,") + "a,b,c,target\n";
    for (Index i = 0; i < rows; ++i)
      out += (split.empty() ? "" : split[static_cast<std::size_t>(i) % split.size()] + ",") +
             fmt::format("{},{},{},{}\n", x(i, 0), x(i, 1), x(i, 2), target(i));
    return out;
  }
};

inline Task task_of(const std::string& path) {
  Task task;
  task.data = path;
  return task;
}

}  // namespace bilevel::models
