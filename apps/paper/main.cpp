#include "bilevel/sister_main.hpp"

int main(int argc, char** argv) {
  static char word[] = "paper";
  return app::run_sister(argc, argv, word, {word, app::add_paper});
}
