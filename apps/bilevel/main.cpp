#include "commands.hpp"
#include "sister_programs.hpp"

int main(int argc, char** argv) {
  app::become_sister_program(argc, argv);
  return app::run_program(argc, argv,
                          {{"tune", app::add_tune},
                           {"predict", app::add_predict},
                           {"clean", app::add_clean},
                           {"train", app::add_train},
                           {"meta", app::add_absent_meta},
                           {"report", app::add_report},
                           {"doctor", app::add_doctor},
                           {"solve", app::add_solve},
                           {"compare", app::add_compare},
                           {"paper", app::add_absent_paper}});
}
