// tost bench decode: a decoding step compared with one read of the weights.
#include <ATen/Parallel.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/io/parse_json.h"
#include "tost/kernels/isa.h"
#include "tost/kinds/language/decode_bench.h"
#include "tost/kinds/language/place.h"
#include "tost/ops/device.h"

namespace tost {
namespace {

void print_head(const DecodeBenchOptions& bench, const std::string& where) {
  const bool here = bench.device.is_cpu();
  std::printf("decoding, batch %lld, %s%s, median of %lld steps\n",
              static_cast<long long>(bench.batch), where.c_str(),
              here ? (", " + kernels::current_isa()).c_str() : "",
              static_cast<long long>(bench.tokens));
  std::printf("%-18s %-5s %8s %9s %9s %9s %8s %10s %11s%s\n", "model", "", "context", "step ms",
              "read ms", "step/read", "GB/s", "state", "prefill t/s", here ? "" : " graphs");
}

struct BenchDecodeFlags {
  RunOptions run;
  DecodeBenchOptions bench;
  std::vector<std::string> precisions;
};

nlohmann::json row_json(const DecodeBenchRow& r) {
  auto json = TOST_MEMBERS(r, model, precision, context, graphs, weight_bytes, state_bytes,
                           resident_bytes, read_gb_per_s, read_ms, step_ms, prefill_tokens_per_s);
  json["step_over_read"] = r.step_ms / r.read_ms;
  return json;
}

void run_bench_decode(const BenchDecodeFlags& options) {
  set_threads(options.run.threads);
  DecodeBenchOptions bench = options.bench;
  bench.device = device_from_name(options.run.device);
  bench.graphs = options.run.graphs;
  const bool on_cpu = bench.device.is_cpu();
  const std::string where = device_label(bench.device);
  for (const auto& name : options.precisions) {
    bench.precisions.push_back(precision_from_name(name, language_precisions(bench.device)));
  }
  nlohmann::json list = nlohmann::json::array();
  run_decode_bench(bench, [&](const DecodeBenchRow& r) {
    list.push_back(row_json(r));
    if (options.run.json) return;
    if (list.size() == 1) print_head(bench, where);
    const char* graphs = on_cpu ? "" : r.graphs ? "    yes" : "     no";
    std::printf("%-18s %-5s %8lld %9.2f %9.2f %9.3f %8.1f %10s %11.0f%s\n", r.model.c_str(),
                name_of(r.precision), static_cast<long long>(r.context), r.step_ms, r.read_ms,
                r.step_ms / r.read_ms, r.read_gb_per_s, human_bytes(r.state_bytes).c_str(),
                r.prefill_tokens_per_s, graphs);
    std::fflush(stdout);
  });
  if (!options.run.json) return;
  print_json({{"threads", at::get_num_threads()},
              {"isa", kernels::current_isa()},
              {"device", options.run.device},
              {"where", where},
              {"batch", options.bench.batch},
              {"rows", list}});
}

}  // namespace

void add_bench_decode_command(CLI::App& bench) {
  auto options = std::make_shared<BenchDecodeFlags>();
  auto& b = options->bench;
  CLI::App* command = bench.add_subcommand(
      "decode", "A decoding step of language models against one read of their weights");
  add_value(*command, "--models", b.models, "Presets, separated by commas")->delimiter(',');
  command
      ->add_option("--precision", options->precisions,
                   list_of(all_precisions()) + ", separated by commas (default: all of the device)")
      ->delimiter(',');
  add_value(*command, "--contexts", b.contexts, "Tokens read before, separated by commas")
      ->delimiter(',');
  add_value(*command, "--batch", b.batch, "Texts at a time");
  add_value(*command, "--tokens", b.tokens, "Measured steps");
  add_device_option(*command, options->run);
  add_graphs_option(*command, options->run);
  add_run_options(*command, options->run);
  add_example(*command, "  tost bench decode --models tost_gpt_base --contexts 16,900 --threads 2");
  command->callback([options] { run_bench_decode(*options); });
}

}  // namespace tost
