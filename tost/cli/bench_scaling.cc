// tost bench scaling: measures how time and memory of a layer grow with the number of tokens.
#include <ATen/Parallel.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/cli/terminal.h"
#include "tost/kernels/isa.h"
#include "tost/kinds/sequence/classifier.h"
#include "tost/study/scaling_bench.h"

namespace tost {
namespace {

struct BenchScalingOptions {
  RunOptions run;
  ScalingOptions bench;
  std::string tokens;
  double max_gib = 0;
  CLI::Option* mixers_flag = nullptr;
};

ScalingOptions checked(const BenchScalingOptions& options) {
  auto bench = options.bench;
  bench.tokens = options.tokens.empty() ? default_lengths() : parse_lengths(options.tokens);
  if (bench.causal && options.mixers_flag->count() == 0) {
    bench.mixers = {"tssa", "softmax", "linear", "ssm"};  // xca is not causal
  }
  if (!(options.max_gib >= 0 && options.max_gib <= 1e6)) {  // NaN is neither
    fail_usage("--max-gib is ", options.max_gib, "; it must be from 0 (what is available) to 1e6.");
  }
  bench.max_bytes = int64_t(options.max_gib * double(1 << 30));
  check_scaling_options(bench);
  if (!bench.network.empty()) {
    const auto preset = sequence_preset(bench.network);
    bench.dim = preset.dim, bench.heads = preset.heads;
  }
  bench.stop = stop_flag();
  return bench;
}

// Shows progress on one line of stderr that is overwritten.
ScalingWatcher watcher_for(ProgressLine& line, const ScalingOptions& bench) {
  ScalingWatcher watcher;
  const auto total = int64_t(bench.tokens.size() * bench.mixers.size() * bench.modes.size());
  const auto done = std::make_shared<int64_t>(0);
  watcher.begin = [&line, total, done](const std::string& mixer, const std::string& mode,
                                       int64_t tokens) {
    line.update(*done, total, cat(mixer, ", ", mode, ", ", human_number(tokens), " tokens"));
  };
  watcher.point = [&line, done](const ScalingPoint& p) {
    ++*done;
    char text[160];
    std::snprintf(text, sizeof text, "%-9s %-8s %10s tokens x %-3lld %12.2f ms  %s",
                  p.mixer.c_str(), p.mode.c_str(), human_number(p.tokens).c_str(),
                  static_cast<long long>(p.batch), p.ms,
                  p.bytes > 0 ? human_bytes(p.bytes).c_str() : "memory not counted");
    line.print(text);
  };
  watcher.stop = [&](const ScalingStop& s) {
    line.print(cat(s.mixer, ", ", s.mode, ": ", human_number(s.tokens), " tokens ", s.reason,
                   "; it stops here."));
  };
  watcher.membership = [&](const MembershipCheck& m) {
    if (m.finite) return;
    line.print(cat("tssa: membership is not finite at ", human_number(m.tokens), " tokens."));
  };
  return watcher;
}

void run_bench_scaling(const BenchScalingOptions& options) {
  set_threads(options.run.threads);
  const auto bench = checked(options);
  if (!options.run.json) {
    const auto what = bench.network.empty() ? "One layer with its projections"
                                            : cat("Networks shaped like ", bench.network);
    std::cout << what << ", " << (bench.causal ? "causal, " : "") << bench.dtype << ", "
              << bench.dim << " channels, " << bench.heads << " heads, " << at::get_num_threads()
              << (at::get_num_threads() == 1 ? " thread, " : " threads, ") << kernels::current_isa()
              << ", median of " << bench.repeat << "\n"
              << std::flush;
  }
  ScalingResult result;
  {
    ProgressLine line(options.run.json);
    result =
        run_scaling_bench(bench, options.run.json ? ScalingWatcher() : watcher_for(line, bench));
    line.finish();
  }
  if (result.interrupted) set_exit_code(kExitInterrupted);
  if (!options.run.json) {
    std::cout << "\n" << scaling_table(bench, result);
    return;
  }
  auto json = scaling_json(bench, result);
  json["threads"] = at::get_num_threads();
  json["isa"] = kernels::current_isa();
  print_json(json);
}

void add_measurement_options(CLI::App& command, BenchScalingOptions& options) {
  auto& b = options.bench;
  options.mixers_flag = add_value(command, "--mixers", b.mixers,
                                  "Token mixers, separated by commas (causal: without xca)")
                            ->delimiter(',');
  command.add_option("--tokens", options.tokens,
                     "Rising lengths, separated by commas, k and M for 1024 and its square "
                     "(default: 128, doubled up to 1M)");
  add_value(command, "--modes", b.modes, "forward, train (forward and backward) or both")
      ->delimiter(',');
  command.add_flag("--causal", b.causal, "The causal mixers");
  command.add_option("--network", b.network,
                     "A classifier of this preset's shape instead of one layer, such as "
                     "tost_lra_text");
  add_value(command, "--dim", b.dim, "Channels");
  add_value(command, "--heads", b.heads, "Heads; must divide the channels");
  add_value(command, "--dtype", b.dtype, "float32 or bfloat16");
}

void add_limits(CLI::App& command, BenchScalingOptions& options) {
  auto& b = options.bench;
  add_value(command, "--batch-tokens", b.batch_tokens,
            "Tokens of a batch: short sequences run several at a time");
  add_value(command, "--repeat", b.repeat, "Rounds; medians are reported");
  add_value(command, "--max-seconds", b.max_seconds,
            "A mixer ends before a length predicted to take longer");
  add_value(command, "--max-gib", options.max_gib,
            "Memory that may be taken (0: what is available)");
}

}  // namespace

void add_bench_scaling_command(CLI::App& bench) {
  auto options = std::make_shared<BenchScalingOptions>();
  CLI::App* command = bench.add_subcommand(
      "scaling", "Time and memory of a layer as the tokens grow, for several mixers");
  add_measurement_options(*command, *options);
  add_limits(*command, *options);
  add_run_options(*command, options->run);
  add_example(*command,
              "  tost bench scaling --modes forward --json\n"
              "  tost bench scaling --mixers tssa,softmax --tokens 1k,4k,16k --threads 2\n"
              "  tost bench scaling --network tost_lra_text --tokens 1k,4k,16k\n"
              "  tost bench scaling --causal --dim 256 --heads 4 --tokens 1k,64k,1M");
  command->callback([options] { run_bench_scaling(*options); });
}

}  // namespace tost
