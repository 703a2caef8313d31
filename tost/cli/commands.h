// The commands of the program. The file of a command parses flags, calls the library and prints.
#pragma once

#include <CLI/CLI.hpp>

namespace tost {

// Lists the commands in the order of --help. A command has a row here, and a file with
// add_NAME_command(), which adds a subcommand to `app`. The callback of the subcommand does the
// work, and throws tost::Error.
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
  X(bench_op)

#define TOST_DECLARE_COMMAND(name) void add_##name##_command(CLI::App& app);
TOST_COMMANDS(TOST_DECLARE_COMMAND)
TOST_BENCH_COMMANDS(TOST_DECLARE_COMMAND)
#undef TOST_DECLARE_COMMAND

// Adds the subcommand `tost data tokens`.
void add_data_tokens_command(CLI::App& data);

}  // namespace tost
