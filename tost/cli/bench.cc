// tost bench: measures speed and memory, next to a reference in the same process.
#include "tost/cli/commands.h"

namespace tost {

void add_bench_command(CLI::App& app) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure speed, each figure with its reference in the same run");
  bench->require_subcommand(1);
#define TOST_ADD_COMMAND(name) add_##name##_command(*bench);
  TOST_BENCH_COMMANDS(TOST_ADD_COMMAND)
#undef TOST_ADD_COMMAND
}

}  // namespace tost
