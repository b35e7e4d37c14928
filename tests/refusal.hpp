#pragma once

#include <string>

#include <bilevel/outcome/violations.hpp>

/// The text of the InvalidInput that `work` throws; "accepted" where it throws none.
template <class Work>
std::string refusal(Work&& work) {
  try {
    work();
  } catch (const bilevel::InvalidInput& refused) {
    return refused.what();
  }
  return "accepted";
}
