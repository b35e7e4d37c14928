#pragma once

#include "page.hpp"

namespace report {

/// The page of `bilevel meta`, from what its --json writes.
Json meta_page(const Json& result);

}  // namespace report
