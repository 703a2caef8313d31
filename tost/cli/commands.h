// The commands of the program, one file each: flags in, library call, printout.
#pragma once

#include <CLI/CLI.hpp>

namespace tost {

// Each adds its subcommand to `app`; the work is done in the subcommand's callback, which throws
// tost::Error.
void add_train_command(CLI::App& app);
void add_sweep_command(CLI::App& app);
void add_lra_command(CLI::App& app);
void add_eval_command(CLI::App& app);
void add_predict_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_explain_command(CLI::App& app);
void add_data_command(CLI::App& app);
void add_data_tokens_command(CLI::App& data);
void add_info_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_convert_command(CLI::App& app);
void add_quantize_command(CLI::App& app);
void add_bench_command(CLI::App& app);
void add_bench_model_command(CLI::App& bench);
void add_bench_op_command(CLI::App& bench);
void add_bench_train_command(CLI::App& bench);
void add_bench_decode_command(CLI::App& bench);
void add_bench_load_command(CLI::App& bench);
void add_bench_data_command(CLI::App& bench);
void add_bench_scaling_command(CLI::App& bench);

}  // namespace tost
