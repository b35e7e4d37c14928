#include "bilevel/sister_main.hpp"
#include "meta.hpp"

int main(int argc, char** argv) {
  static char word[] = "meta";
  return app::run_sister(argc, argv, word, {word, app::add_meta});
}
