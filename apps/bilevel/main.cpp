#include <string_view>

#include "claims_program.hpp"
#include "commands.hpp"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "paper") app::become_claims_program(argv);
  return app::run_program(argc, argv,
                          {{"tune", app::add_tune},
                           {"predict", app::add_predict},
                           {"clean", app::add_clean},
                           {"train", app::add_train},
                           {"report", app::add_report},
                           {"doctor", app::add_doctor},
                           {"solve", app::add_solve},
                           {"compare", app::add_compare},
                           {"paper", app::add_absent_paper}});
}
