#include "interrupt.hpp"

#include <atomic>
#include <csignal>

namespace app {
namespace {

std::atomic<bool> flag{false};

extern "C" void on_interrupt(int signal) {
  flag = true;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void catch_interrupts() {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
}

bool interrupted() {
  return flag;
}

}  // namespace app
