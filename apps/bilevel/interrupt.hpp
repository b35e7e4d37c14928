#pragma once

namespace app {

/// From now on the first Ctrl-C or SIGTERM only sets a flag, so that a command can end in order; a second one
/// ends the program.
void catch_interrupts();
bool interrupted();

}  // namespace app
