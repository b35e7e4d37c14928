#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "blocks.hpp"

// How well tuned penalties do against the default and the best single λ.
namespace report {

/// How well one choice of penalties does.
struct Outcome {
  std::string name, penalties;
  double validation_loss = std::numeric_limits<double>::quiet_NaN(),
         fits = std::numeric_limits<double>::quiet_NaN(), seconds = std::numeric_limits<double>::quiet_NaN();
  std::optional<Reading> test;

  double on_test(const char* key) const;
};

/// The default, the best single λ and the tuned penalties, as far as they are there; the tuned ones are last.
std::vector<Outcome> outcomes(const Reading& result);

/// What has a penalty of its own: a feature, a group, a class; "" where nothing has.
std::string unit_of(const Reading& result);

/// Are the penalties those of a network's weights?
bool of_network(const Reading& result);

/// Did the run end with a gradient that is small, and known to be?
bool trustworthy(const Reading& result);

/// What was tuned and how well, in words.
std::string headline(const Reading& result, const std::vector<Outcome>& all);

/// The facts under the page's title.
Json page_facts(const Reading& result, const Outcome& tuned);

/// Warnings, and all of it as a table.
void add_result(Json& sections, const Reading& result, const std::vector<Outcome>& all);

}  // namespace report
