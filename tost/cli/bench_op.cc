// tost bench op: compares the operator with its plain form, a copy of its input, and the layer's
// projections.
#include <ATen/Parallel.h>

#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/io/parse_json.h"
#include "tost/kernels/isa.h"
#include "tost/ops/device.h"
#include "tost/study/op_bench.h"

namespace tost {
namespace {

struct BenchOpOptions {
  RunOptions run;
  OpBenchOptions bench;
  std::string shapes = "32x197,8x1024,2x4096,1x16384";
};

nlohmann::json row_json(const OpBenchRow& r) {
  auto json = TOST_MEMBERS(r, error, copy_ms, core_ms, plain_ms, core_both_ms, plain_both_ms,
                           layer_ms, projections_ms, layer_both_ms, projections_both_ms,
                           attention_ms, attention_both_ms, layer_kept, plain_layer_kept);
  json.update(TOST_MEMBERS(r.shape, batch, tokens));
  json.update({{"core_speedup", r.plain_ms / r.core_ms},
               {"core_both_speedup", r.plain_both_ms / r.core_both_ms},
               {"core_over_copy", r.core_ms / r.copy_ms},
               {"layer_over_projections", r.layer_ms / r.projections_ms},
               {"layer_both_over_projections", r.layer_both_ms / r.projections_both_ms}});
  return json;
}

void print_line(const char* name, double ms, const std::string& against) {
  std::cout << "  " << std::left << std::setw(30) << name << std::right << std::setw(10)
            << std::fixed << std::setprecision(2) << ms << " ms  " << against << "\n";
}

std::string times(double ratio, const char* what) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(ratio < 2 ? 3 : 1) << ratio << " " << what;
  return out.str();
}

void print_row(const OpBenchRow& r) {
  std::cout << r.shape.batch << " x " << r.shape.tokens << " tokens (agrees with the plain form to "
            << std::scientific << std::setprecision(1) << r.error << ")\n";
  print_line("copy of w", r.copy_ms, "");
  print_line("core forward", r.core_ms,
             times(r.plain_ms / r.core_ms, "x faster than plain, ") +
                 times(r.core_ms / r.copy_ms, "copies"));
  print_line("  plain", r.plain_ms, "");
  print_line("core forward+backward", r.core_both_ms,
             times(r.plain_both_ms / r.core_both_ms, "x faster than plain"));
  print_line("  plain", r.plain_both_ms, "");
  print_line("layer forward", r.layer_ms,
             times(r.layer_ms / r.projections_ms, "of its projections"));
  print_line("  projections alone", r.projections_ms, "");
  print_line("layer forward+backward", r.layer_both_ms,
             times(r.layer_both_ms / r.projections_both_ms, "of its projections"));
  print_line("  projections alone", r.projections_both_ms, "");
  if (r.attention_ms > 0) {
    print_line("attention layer forward", r.attention_ms,
               times(r.attention_ms / r.layer_ms, "of the layer's time"));
    print_line("  forward+backward", r.attention_both_ms,
               times(r.attention_both_ms / r.layer_both_ms, "of the layer's time"));
  }
  std::cout << "  kept for backward: " << std::setprecision(2) << r.layer_kept
            << " inputs a layer, plain " << r.plain_layer_kept << "\n"
            << std::flush;
}

std::string op_title_of(const OpBenchOptions& bench) {
  return cat(bench.means ? "Group means, " : "TSSA, ", bench.causal ? "causal, " : "",
             bench.gate ? "gated, " : "");
}

void run_bench_op(const BenchOpOptions& options) {
  set_threads(options.run.threads);
  auto bench = options.bench;
  bench.shapes = parse_op_shapes(options.shapes);
  bench.device = options.run.device;
  const bool gpu = device_from_name(bench.device).is_cuda();
  if (!options.run.json) {
    std::cout << op_title_of(bench) << bench.dtype << ", " << bench.dim << " channels, "
              << bench.heads << " heads, ";
    if (gpu) {
      std::cout << bench.device;
    } else {
      std::cout << at::get_num_threads() << " threads, " << kernels::current_isa();
    }
    std::cout << ", median of " << bench.repeat << "\n";
  }
  const auto rows = run_op_bench(bench, [&](const OpBenchRow& row) {
    if (!options.run.json) print_row(row);
  });
  if (!options.run.json) return;
  nlohmann::json list = nlohmann::json::array();
  for (const auto& row : rows) list.push_back(row_json(row));
  auto json = TOST_MEMBERS(bench, causal, means, gate, dtype, device, dim, heads, repeat);
  json["threads"] = at::get_num_threads();
  json["isa"] = kernels::current_isa();
  json["shapes"] = list;
  print_json(json);
}

}  // namespace

void add_bench_op_command(CLI::App& bench) {
  auto options = std::make_shared<BenchOpOptions>();
  CLI::App* command = bench.add_subcommand(
      "op",
      "The TSSA operator against its plain form, a copy of its input and its layer's projections");
  add_value(*command, "--shapes", options->shapes, "Batch x tokens pairs, separated by commas");
  command->add_flag("--causal", options->bench.causal,
                    "The causal operator, in a layer without projection biases");
  command->add_flag("--means", options->bench.means,
                    "Group means: the mixer means in place of tssa");
  command->add_flag("--gate", options->bench.gate, "With --means: gated");
  add_value(*command, "--dim", options->bench.dim, "Channels");
  add_value(*command, "--heads", options->bench.heads, "Heads; must divide the channels");
  add_value(*command, "--dtype", options->bench.dtype, "float32 or bfloat16");
  add_value(*command, "--repeat", options->bench.repeat, "Rounds; medians are reported");
  add_device_option(*command, options->run);
  add_run_options(*command, options->run);
  add_example(*command,
              "  tost bench op --shapes 32x197,1x16384 --threads 2\n"
              "  tost bench op --causal --shapes 8x1024 --dtype bfloat16");
  command->callback([options] { run_bench_op(*options); });
}

}  // namespace tost
