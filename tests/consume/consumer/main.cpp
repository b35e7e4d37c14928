#include <bilevel/version.hpp>
#include <fmt/format.h>

int main() {
  fmt::print("bilevel {}\n", bilevel::version);
}
