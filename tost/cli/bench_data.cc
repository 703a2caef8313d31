// tost bench data: how fast batches are made, compared with plain decoding and what a step needs.
#include <ATen/Parallel.h>

#include <iomanip>
#include <iostream>
#include <memory>

#include "tost/cli/bench_output.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/io/parse_json.h"
#include "tost/study/data_bench.h"

namespace tost {
namespace {

struct BenchDataFlags {
  DataBenchOptions bench;
  BenchOutput output;
  std::string precision = "bf16";
  int64_t threads = 0;
  bool no_step = false;
};

std::string formatted(const std::string& format, const std::vector<DataBenchRow>& rows) {
  if (format == "csv") return data_bench_csv(rows, bench_origin());
  if (format == "json") return json_text(data_bench_json(rows, bench_origin()), 2) + "\n";
  return data_bench_markdown(rows, bench_origin());
}

// To stderr as each is done: the table comes when all are.
void print_data_progress(const DataBenchRow& row) {
  std::cerr << row.source << ", " << row.recipe << ", " << row.workers << " workers: " << std::fixed
            << std::setprecision(0) << row.median << " " << row.unit << "\n";
}

void run_bench_data(BenchDataFlags& o) {
  check_output(o.output);
  set_threads(o.threads);
  o.bench.step = !o.no_step;
  o.bench.precision = step_precision(o.precision);
  o.bench.stop = stop_flag();
  const auto rows = run_data_bench(o.bench, print_data_progress);
  if (o.bench.stop != nullptr && *o.bench.stop) set_exit_code(kExitInterrupted);
  if (rows.empty()) return;
  write_bench_files(o.output, [&](const std::string& format) { return formatted(format, rows); });
  if (o.output.files.empty()) std::cout << formatted(o.output.format, rows);
}

void add_lists(CLI::App& command, DataBenchOptions& b) {
  const auto list = [&](const char* flag, auto& to, const char* text) {
    add_value(command, flag, to, text)->delimiter(',');
  };
  list("--source", b.sources,
       "jpeg, png (photographs in a folder), raw (32 x 32 in memory), text (tokens in memory)");
  list("--recipe", b.recipes,
       "Augmentation of a recipe of `tost train`, or eval: evaluation's transform");
  list("--workers", b.workers, "Threads that make batches");
}

void add_data_options(CLI::App& command, BenchDataFlags& o) {
  auto& b = o.bench;
  add_value(command, "--pictures", b.pictures, "Pictures of a pass");
  add_value(command, "--width", b.width, "Of photographs");
  add_value(command, "--height", b.height, "Of photographs");
  add_value(command, "--image-size", b.image_size, "Side of the network's input from photographs");
  add_value(command, "--batch", b.batch, "Pictures or crops of text at a time");
  add_value(command, "--repeat", b.repeat, "Passes; median and quartiles are reported");
  add_value(command, "--model", b.model, "Preset whose training steps consume photographs");
  add_value(command, "--raw-model", b.raw_model,
            "Preset whose training steps consume raw pictures");
  add_value(command, "--text-model", b.text_model, "Preset whose training steps consume text");
  add_value(command, "--precision", o.precision, "Of the steps: fp32 or bf16");
  add_value(command, "--threads", o.threads, "Compute threads of the steps; 0: all cores");
  command.add_flag("--no-step", o.no_step, "Without the training steps");
  command.add_option("--folder", b.folder, "For the pictures; by default the temporary folder");
  add_output_options(command, o.output);
}

}  // namespace

void add_bench_data_command(CLI::App& bench) {
  auto options = std::make_shared<BenchDataFlags>();
  CLI::App* command = bench.add_subcommand(
      "data", "Loading and augmenting against plain decoding and what training steps consume");
  add_lists(*command, options->bench);
  add_data_options(*command, *options);
  add_example(*command,
              "  tost bench data\n"
              "  tost bench data --source jpeg --recipe imagenet --workers 1,2,4 --pictures 256\n"
              "  tost bench data --no-step --output loading.md,loading.json");
  command->callback([options] { run_bench_data(*options); });
}

}  // namespace tost
