// tost bench model: compares networks with their matrix products and one read of their weights.
#include "tost/bench/bench_model.h"

#include <torch/version.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <functional>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/machine.h"
#include "tost/base/text.h"
#include "tost/bench/measure.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/io/parse_json.h"
#include "tost/kernels/isa.h"
#include "tost/ops/device.h"
#include "tost/study/model_bench.h"

namespace tost {
namespace {

constexpr const char* kFormats[] = {"md", "json"};

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string format_of(const std::string& file, const std::string& otherwise) {
  for (const char* format : kFormats) {
    if (ends_with(file, cat(".", format))) return format;
  }
  return otherwise;
}

struct BenchOutput {
  std::string format = "md";  // or json
  std::vector<std::string> files;
  bool json = false;  // the same as format json
};

// Describes the measurement: machine, build and time.
BenchOrigin bench_origin() {
  return {cpu_name(),
          join(cpu_features(), " "),
          kernels::current_isa(),
          build_version(),
          build_commit(),
          build_type(),
          __VERSION__,
          TORCH_VERSION,
          utc_now()};
}

// --format, --json, --output.
void add_output_options(CLI::App& command, BenchOutput& output) {
  add_value(command, "--format", output.format, "md or json");
  command.add_flag("--json", output.json, "The same as --format json");
  command
      .add_option("--output", output.files,
                  "Write the rows to these files; .md and .json say the format")
      ->delimiter(',');
}

// Throws usage Errors for an unknown format, and for files that check_output_file() refuses.
void check_output(BenchOutput& output) {
  for (const auto& file : output.files) check_output_file("output", file);
  if (output.json) output.format = "json";
  for (const char* format : kFormats) {
    if (output.format == format) return;
  }
  fail_usage("--format is '", output.format, "'; it must be md or json.");
}

// Writes each file in the format of its extension, or in that of --format without extension.
void write_bench_files(const BenchOutput& output,
                       const std::function<std::string(const std::string& format)>& formatted) {
  for (const auto& file : output.files) {
    write_file_atomic(file, formatted(format_of(file, output.format)));
  }
}

struct BenchModelFlags {
  ModelBenchOptions bench;
  std::string tokens;
  std::vector<std::string> precisions{"fp32"};
  std::vector<std::string> engines;  // empty: both, on a GPU only off
  BenchOutput output;
  std::string compare, save_weights, save_logits;
  bool no_floor = false, work = false;
};

std::string formatted(const std::string& format, const std::vector<ModelBenchRow>& rows) {
  if (format == "json") return json_text(model_bench_json(rows, bench_origin()), 2) + "\n";
  const std::string work = model_work_markdown(rows);
  return model_bench_markdown(rows, bench_origin()) + (work.empty() ? "" : "\n" + work);
}

void check(BenchModelFlags& o) {
  check_output(o.output);
  check_output_ending("save-weights", o.save_weights, {".safetensors"});
  check_output_ending("save-logits", o.save_logits, {".safetensors"});
  o.bench.engines.clear();
  if (o.engines.empty()) {
    o.engines = {"on", "off"};
    if (device_from_name(o.bench.device).is_cuda()) o.engines = {"off"};
  }
  for (const auto& engine : o.engines) {
    if (engine != "on" && engine != "off") {
      fail_usage("--engine is '", engine, "'; write on, off or on,off.");
    }
    o.bench.engines.push_back(engine == "on");
  }
  o.bench.precisions = precisions_named("--precision", o.precisions);
  if (!o.tokens.empty()) o.bench.tokens = parse_lengths(o.tokens);
  o.bench.work = o.work;
  if (o.bench.work && !std::count(o.bench.engines.begin(), o.bench.engines.end(), true)) {
    fail_usage("--work tells of the engine; --engine off leaves nothing to tell.");
  }
  o.bench.floors = !o.no_floor;
  o.bench.stop = stop_flag();
  check_model_bench(o.bench);
}

// Reads the file of --compare before the measurement, so that a mistake is reported at once.
nlohmann::json read_earlier(const std::string& file) {
  constexpr int64_t kMaxBytes = int64_t{64} << 20;
  return parse_json(read_file(file, kMaxBytes), cat("'", file, "'"));
}

// Prints each finished row to stderr, and the table at the end.
void print_model_progress(const ModelBenchRow& row) {
  std::cerr << row.model << ", " << row.test << ", batch " << row.batch << ", size " << row.size
            << ", " << row.precision << ", " << (row.engine ? "engine: " : "plain: ");
  if (!row.missing.empty()) {
    std::cerr << row.missing << "\n";
    return;
  }
  std::cerr << std::fixed << std::setprecision(2) << row.median_ms << " ms\n";
}

void run_bench_model(BenchModelFlags& o) {
  check(o);
  nlohmann::json earlier;
  if (!o.compare.empty()) earlier = read_earlier(o.compare);
  if (!o.save_weights.empty()) save_bench_weights(o.bench, o.save_weights);
  if (!o.save_logits.empty()) save_bench_logits(o.bench, o.save_logits);
  if (!o.save_weights.empty() || !o.save_logits.empty()) return;
  const auto rows = run_model_bench(o.bench, print_model_progress);
  if (o.bench.stop != nullptr && *o.bench.stop) set_exit_code(kExitInterrupted);
  if (rows.empty()) return;
  write_bench_files(o.output, [&](const std::string& format) { return formatted(format, rows); });
  if (!o.compare.empty()) {
    const auto now = model_bench_json(rows, bench_origin());
    std::cout << changes_markdown(compare_model_bench(earlier, now, o.compare));
  } else if (o.output.files.empty()) {
    std::cout << formatted(o.output.format, rows);
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
  list("--engine", o.engines, "on, off (the plain modules) or both (default)");
}

void add_model_options(CLI::App& command, BenchModelFlags& o) {
  auto& b = o.bench;
  add_value(command, "--device", b.device, "cpu, cuda, cuda:N, or auto; on a GPU --engine is off");
  add_value(command, "--steps", b.steps, "Tokens of a repetition of decode");
  add_value(command, "--warmup", b.warmup, "Repetitions before the measured ones");
  add_value(command, "--repeat", b.repeat, "Repetitions; median and quartiles are reported");
  command.add_flag("--no-floor", o.no_floor, "Without the matrix products and the read of memory");
  add_output_options(command, o.output);
  command.add_flag("--work", o.work,
                   "Also where the engine's time goes: products, norms, mixing and so on");
  command.add_option("--compare", o.compare, "Rows of an earlier run (JSON): print what changed");
  command.add_option("--save-weights", o.save_weights,
                     "Write the weights to a model file and measure nothing");
  command.add_option("--save-logits", o.save_logits,
                     "Write input and logits to a safetensors file and measure nothing");
}

}  // namespace

void add_bench_model_command(CLI::App& bench) {
  auto options = std::make_shared<BenchModelFlags>();
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
