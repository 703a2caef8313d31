// tost bench: measurements, each beside its reference in the same process.
#include "tost/cli/commands.h"

namespace tost {

void add_bench_command(CLI::App& app) {
  CLI::App* bench = app.add_subcommand(
      "bench", "Measure speed, each figure beside its reference in the same run");
  bench->require_subcommand(1);
  add_bench_model_command(*bench);
  add_bench_op_command(*bench);
  add_bench_train_command(*bench);
  add_bench_decode_command(*bench);
  add_bench_load_command(*bench);
  add_bench_data_command(*bench);
  add_bench_scaling_command(*bench);
}

}  // namespace tost
