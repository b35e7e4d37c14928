// The grid of actor_critic.cpp: where actions lead to, and what they earn.
#pragma once

#include <array>
#include <utility>

#include <Eigen/Core>

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

/// A grid of 4×3 cells: a goal (+1) and a pit (−1), both the end, and a wall. Each step costs 0.02; it goes
/// the way it should in eight of ten cases and aside in the others, and a wall throws it back.
struct Grid {
  static constexpr int columns = 4, rows = 3, states = 12, actions = 4, goal = 3, pit = 7, wall = 5;
  static constexpr double discount = 0.95;
  std::array<Mat, actions> move;  ///< where an action leads to, from each cell
  Mat reward = Mat::Zero(states, actions);
  Vec start = Vec::Zero(states);  ///< anywhere but at an end

  Grid() {
    move.fill(Mat::Zero(states, states));
    for (int s = 0; s < states; ++s) {
      if (s == goal || s == pit || s == wall) continue;
      start[s] = 1.0 / (states - 3);
      for (int a = 0; a < actions; ++a)
        for (const auto& [way, chance] : {std::pair{a, 0.8}, {(a + 1) % 4, 0.1}, {(a + 3) % 4, 0.1}}) {
          const int to = next(s, way);
          move[static_cast<std::size_t>(a)](s, to) += chance;
          reward(s, a) += chance * (to == goal ? 1 : to == pit ? -1 : -0.02);
        }
    }
  }
  static int next(int s, int way) {  // up, right, down, left
    const int x = s % columns + (way == 1) - (way == 3), y = s / columns + (way == 2) - (way == 0);
    const int to = y * columns + x;
    return x < 0 || x >= columns || y < 0 || y >= rows || to == wall ? s : to;
  }
  /// What each action earns where V is worth what comes then.
  Mat earned(const Vec& v) const {
    Mat q = reward;
    for (int a = 0; a < actions; ++a) q.col(a) += discount * (move[static_cast<std::size_t>(a)] * v);
    return q;
  }
};
