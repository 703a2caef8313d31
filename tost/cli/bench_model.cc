// tost bench model: compares networks with their matrix products and one read of their weights.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/machine.h"
#include "tost/base/text.h"
#include "tost/bench/model_bench.h"
#include "tost/cli/build_info.h"
#include "tost/cli/model_commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/io/parse_json.h"
#include "tost/kernels/isa.h"

namespace tost {
namespace {

std::string format_of(const std::string& file, const std::string& otherwise) {
  return ends_with(file, ".md") ? "md" : ends_with(file, ".json") ? "json" : otherwise;
}

// Describes the measurement: machine, build and time.
BenchOrigin bench_origin() {
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return {cpu_name(),
          join(cpu_features(), " "),
          kernels::current_isa(),
          build_version(),
          build_commit(),
          build_type(),
          __VERSION__,
          TOST_TORCH_VERSION,
          date};
}

struct BenchModelFlags {
  ModelBenchOptions bench;
  std::string tokens;
  std::vector<std::string> precisions{"fp32"};
  std::vector<std::string> engines;  // empty: all that the program has, on a GPU only off
  std::string format = "md";         // or json
  std::vector<std::string> files;
  bool json = false;  // the same as format json
  std::string compare, save_weights, save_logits;
  bool no_floor = false;
};

std::string formatted(const std::string& format, const std::vector<ModelBenchRow>& rows) {
  if (format == "json") return json_text(model_bench_json(rows, bench_origin()), 2) + "\n";
  const std::string work = model_work_markdown(rows);
  return model_bench_markdown(rows, bench_origin()) + (work.empty() ? "" : "\n" + work);
}

void check(BenchModelFlags& o) {
  for (const auto& file : o.files) check_output_file("output", file);
  if (o.json) o.format = "json";
  if (o.format != "md" && o.format != "json") {
    fail_usage("--format is '", o.format, "'; it must be md or json.");
  }
  check_output_ending("save-weights", o.save_weights, {".safetensors"});
  check_output_ending("save-logits", o.save_logits, {".safetensors"});
  o.bench.engines.clear();
  if (o.engines.empty()) {
    const BenchBackend& backend = o.bench.backend;
    if (backend.device(o.bench.device)->is_cpu()) o.engines = {"on"};
    if (backend.modules) o.engines.push_back("off");
  }
  for (const auto& engine : o.engines) {
    if (engine != "on" && engine != "off") {
      fail_usage("--engine is '", engine, "'; write on, off or on,off.");
    }
    o.bench.engines.push_back(engine == "on");
  }
  o.bench.precisions = precisions_named("--precision", o.precisions);
  if (!o.tokens.empty()) o.bench.tokens = parse_lengths(o.tokens);
  if (o.bench.work && std::ranges::count(o.bench.engines, true) == 0) {
    fail_usage("--work tells of the engine; --engine off leaves nothing to tell.");
  }
  o.bench.floors = !o.no_floor;
  o.bench.stop = stop_flag();
  check_model_bench(o.bench);
}

// Prints each finished row to stderr, and the table at the end.
void print_model_progress(const ModelBenchRow& row) {
  std::cerr << row.model << ", " << row.test << ", batch " << row.batch << ", size " << row.size
            << ", " << row.precision << ", " << (row.engine ? "engine: " : "plain: ")
            << (row.missing.empty() ? format_text("%.2f ms\n", row.median_ms) : row.missing + "\n");
}

void run_bench_model(BenchModelFlags& o) {
  check(o);
  nlohmann::json earlier;
  if (!o.compare.empty()) {  // now, so that a mistake is reported at once
    earlier = parse_json(read_file(o.compare, int64_t{64} << 20), cat("'", o.compare, "'"));
  }
  if (!o.save_weights.empty()) save_bench_weights(o.bench, o.save_weights);
  if (!o.save_logits.empty()) save_bench_logits(o.bench, o.save_logits);
  if (!o.save_weights.empty() || !o.save_logits.empty()) return;
  const auto rows = run_model_bench(o.bench, print_model_progress);
  if (o.bench.stop != nullptr && *o.bench.stop) set_exit_code(kExitInterrupted);
  if (rows.empty()) return;
  for (const auto& file : o.files) {
    write_file_atomic(file, formatted(format_of(file, o.format), rows));
  }
  if (!o.compare.empty()) {
    const auto now = model_bench_json(rows, bench_origin());
    std::cout << changes_markdown(compare_model_bench(earlier, now, o.compare));
  } else if (o.files.empty()) {
    std::cout << formatted(o.format, rows);
  }
}

void add_lists(CLI::App& command, BenchModelFlags& o) {
  auto& b = o.bench;
  const auto list = [&](const char* flag, auto& to, const std::string& text) {
    command.add_option(flag, to, text)->delimiter(',');
  };
  accept_shipped_names(*add_value(command, "--model", b.models,
                                  "Presets, files or shipped models of pictures, language or "
                                  "sequences")
                            ->delimiter(','));
  list("--test", b.tests,
       "forward (pictures, sequences), prefill, decode (language); default: all the model has");
  list("--batch", b.batches, "Inputs at a time (default: 1)");
  list("--image-size", b.image_sizes, "Sides of pictures (default: the model's)");
  command.add_option(
      "--tokens", o.tokens,
      "Rising lengths, k for 1024: a text that is read, or that comes before decode");
  list("--threads", b.threads, "Compute threads (default: all cores)");
  list("--precision", o.precisions, list_of(all_precisions()) + " (default: fp32)");
  list("--mixer", b.mixers, "Token mixers instead of a preset's own");
  list("--engine", o.engines,
       "on, off (the plain modules) or both (default, where torch is installed)");
}

void add_model_options(CLI::App& command, BenchModelFlags& o) {
  auto& b = o.bench;
  add_value(command, "--device", b.device, "cpu, cuda, cuda:N, or auto; on a GPU --engine is off");
  add_value(command, "--steps", b.steps, "Tokens of a repetition of decode");
  add_value(command, "--warmup", b.warmup, "Repetitions before the measured ones");
  add_value(command, "--repeat", b.repeat, "Repetitions; median and quartiles are reported");
  command.add_flag("--no-floor", o.no_floor, "Without the matrix products and the read of memory");
  add_value(command, "--format", o.format, "md or json");
  command.add_flag("--json", o.json, "The same as --format json");
  command
      .add_option("--output", o.files,
                  "Write the rows to these files; .md and .json say the format")
      ->delimiter(',');
  command.add_flag("--work", b.work,
                   "Also where the engine's time goes: products, norms, mixing and so on");
  command.add_option("--compare", o.compare, "Rows of an earlier run (JSON): print what changed");
  command.add_option("--save-weights", o.save_weights,
                     "Write the weights to a model file and measure nothing");
  command.add_option("--save-logits", o.save_logits,
                     "Write input and logits to a safetensors file and measure nothing");
}

}  // namespace

void add_bench_model_command(CLI::App& bench, const BenchBackend& backend) {
  auto options = std::make_shared<BenchModelFlags>();
  options->bench.backend = backend;
  CLI::App* command = bench.add_subcommand(
      "model", "Whole networks: speed, memory, and the floors of both, in all combinations");
  add_lists(*command, *options);
  add_model_options(*command, *options);
  add_example(*command,
              "  tost bench model --model tost_cab_tiny_12_p16,tost_cab_small_12_p16 --batch 1,16\n"
              "  tost bench model --model tost_gpt_base --tokens 512,8k --precision fp32,bf16\n"
              "  tost bench model --format json --output now.json\n"
              "  tost bench model --compare now.json");
  command->callback([options] { run_bench_model(*options); });
}

}  // namespace tost
