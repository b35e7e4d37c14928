// The cart and the pole of cart_pole.cpp: where a push leads, and episodes.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include <Eigen/Core>

namespace cart_pole {

using State = Eigen::Vector4d;  // position, speed, angle, turning speed
using Draw = std::mt19937_64;

constexpr int longest = 500;  // steps of an episode
constexpr double degrees = 180 / 3.14159265358979323846;

/// The usual cart (Barto, Sutton and Anderson 1983): 1 kg, a pole of 0.1 kg and 1 m, ±10 N, 50 steps a
/// second.
inline State pushed(const State& s, bool right) {
  const double sine = std::sin(s[2]), cosine = std::cos(s[2]);
  const double pull = ((right ? 10 : -10) + 0.05 * s[3] * s[3] * sine) / 1.1;
  const double turn = (9.8 * sine - cosine * pull) / (0.5 * (4.0 / 3 - 0.1 * cosine * cosine / 1.1));
  return s + 0.02 * State(s[1], pull - 0.05 * turn * cosine / 1.1, s[3], turn);
}
inline bool fallen(const State& s) {
  return std::abs(s[0]) > 2.4 || std::abs(s[2]) > 12 / degrees;
}
inline State scaled(const State& s) {
  return s.cwiseQuotient(State(2.4, 2, 0.21, 2));
}

struct Move {
  State from, to;
  bool right;
};

inline double uniform(Draw& draw) {
  return static_cast<double>(draw() >> 11) * 0x1p-53;
}

/// One episode: every state, and the moves between them where they are wanted. The policy is drawn from while
/// it learns, and goes the likelier way when it is tried.
inline std::vector<State> play(const Eigen::VectorXd& theta, Draw& draw, bool tried,
                               std::vector<Move>* moves = nullptr) {
  State s;
  for (double& x : s) x = 0.1 * uniform(draw) - 0.05;
  std::vector<State> states{s};
  while (states.size() <= longest && !fallen(s)) {
    const double push = scaled(s).dot(theta);
    const bool right = tried ? push > 0 : uniform(draw) < 1 / (1 + std::exp(-push));
    const State next = pushed(s, right);
    if (moves) moves->push_back({s, next, right});
    states.push_back(s = next);
  }
  return states;
}
inline double mean_length(const Eigen::VectorXd& theta, Draw& draw, int episodes) {
  double steps = 0;
  for (int e = 0; e < episodes; ++e) steps += static_cast<double>(play(theta, draw, true).size() - 1);
  return steps / episodes;
}

}  // namespace cart_pole
