// The commands of the program, one file each: flags in, library call, printout.
#pragma once

#include <CLI/CLI.hpp>

namespace tost {

// The commands in the order of --help. A command is a row here and a file that defines
// add_NAME_command(), which adds its subcommand to `app`. The work is done in the subcommand's
// callback, which throws tost::Error.
#define TOST_COMMANDS(X) \
  X(train)               \
  X(eval)                \
  X(predict)             \
  X(generate)            \
  X(explain)             \
  X(serve)               \
  X(data)                \
  X(models)              \
  X(info)                \
  X(inspect)             \
  X(quantize)            \
  X(bench)
#define TOST_BENCH_COMMANDS(X) \
  X(bench_model)               \
  X(bench_op)                  \
  X(bench_scaling)

#define TOST_DECLARE_COMMAND(name) void add_##name##_command(CLI::App& app);
TOST_COMMANDS(TOST_DECLARE_COMMAND)
TOST_BENCH_COMMANDS(TOST_DECLARE_COMMAND)
#undef TOST_DECLARE_COMMAND

// A subcommand of tost data.
void add_data_tokens_command(CLI::App& data);

}  // namespace tost
