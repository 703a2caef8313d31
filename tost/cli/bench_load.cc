// tost bench load: loading a model file compared with one read of its bytes.
#include <ATen/Parallel.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/io/parse_json.h"
#include "tost/study/load_bench.h"

namespace tost {
namespace {

struct BenchLoadFlags {
  RunOptions run;
  LoadBenchOptions bench;
};

void run_bench_load(const BenchLoadFlags& options) {
  set_threads(options.run.threads);
  nlohmann::json list = nlohmann::json::array();
  const auto rows = run_load_bench(options.bench);
  if (!options.run.json) {
    std::printf("loading %s parameters, float32, %d threads, warm, median of %lld\n",
                human_number(rows[0].parameters).c_str(), at::get_num_threads(),
                static_cast<long long>(options.bench.repeat));
    std::printf("%-12s %9s %9s %9s %9s\n", "file", "size", "read ms", "load ms", "load/read");
  }
  for (const LoadBenchRow& r : rows) {
    list.push_back(TOST_MEMBERS(r, format, parameters, bytes, read_ms, load_ms));
    list.back()["load_over_read"] = r.load_ms / r.read_ms;
    if (options.run.json) continue;
    std::printf("%-12s %9s %9.1f %9.1f %9.2f\n", r.format.c_str(), human_bytes(r.bytes).c_str(),
                r.read_ms, r.load_ms, r.load_ms / r.read_ms);
  }
  if (!options.run.json) return;
  print_json(
      {{"threads", at::get_num_threads()}, {"repeat", options.bench.repeat}, {"rows", list}});
}

}  // namespace

void add_bench_load_command(CLI::App& bench) {
  auto options = std::make_shared<BenchLoadFlags>();
  auto& b = options->bench;
  CLI::App* command =
      bench.add_subcommand("load", "Loading a model file against one read of its bytes");
  add_value(*command, "--model", b.model, "Preset of a language model");
  add_value(*command, "--depth", b.depth, "Its blocks; 0: the preset's");
  add_value(*command, "--repeat", b.repeat, "Repetitions");
  command->add_option("--folder", b.folder, "For the files; by default the temporary folder");
  add_run_options(*command, options->run);
  add_example(*command, "  tost bench load --threads 2");
  command->callback([options] { run_bench_load(*options); });
}

}  // namespace tost
