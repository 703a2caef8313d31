// tost bench quality: what token mixers learn, at equal parameters, from one command.
#include <iostream>

#include "tost/base/cpu_info.h"
#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/bench_output.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/cli/sweep_view.h"
#include "tost/study/quality_run.h"
#include "tost/train/config_field.h"

namespace tost {
namespace {

struct QualityFlags {
  QualityOptions quality;
  std::vector<std::string> data, set;
  std::string out = "quality";
  bool overwrite = false, quiet = false;
  RunOptions run;
};

QualityOptions quality_options_of(const QualityFlags& o) {
  QualityOptions quality = o.quality;
  for (const std::string& text : o.data) add_task_data(text, quality.data);
  for (const std::string& text : o.set) {
    quality.settings = merge(quality.settings, setting_from_text(text));
  }
  return quality;
}

// What is not usual.
std::string quality_command_line(const QualityFlags& o) {
  const QualityOptions usual, &q = o.quality;
  std::string command = "tost bench quality";
  if (!q.tasks.empty()) command += " " + join(q.tasks, " ");
  if (q.quick) command += " --quick";
  if (!q.contestants.empty()) command += " --contestants " + join(q.contestants, ",");
  if (q.seeds != usual.seeds) command += " --seeds " + join_numbers(q.seeds);
  if (q.learning_rates != usual.learning_rates) {
    command += " --learning-rates " + join_numbers(q.learning_rates);
  }
  for (const std::string& text : o.data) command += " --data " + quoted(text);
  for (const std::string& text : o.set) command += " --set " + quoted(text);
  if (o.run.threads > 0) command += cat(" --threads ", o.run.threads);
  return command + " --out " + quoted(o.out);
}

void run_bench_quality(QualityFlags& o) {
  check_threads(o.run.threads);
  if (o.quality.quick) {
    // A choice of the learning rate and a spread, as small as they can be.
    if (o.quality.seeds == QualityOptions().seeds) o.quality.seeds = {0, 1};
    if (o.quality.learning_rates == QualityOptions().learning_rates) {
      o.quality.learning_rates = {1e-3, 1e-2};
    }
  }
  const QualityPlan plan = plan_quality(quality_options_of(o));
  for (const QualityMissing& missing : plan.missing) std::cerr << "note: " << missing.why << "\n";
  const BenchOrigin origin = bench_origin();
  std::string machine = origin_line(origin);
  machine.pop_back();  // its line feed
  const SweepOptions sweep{.out = o.out,
                           .only = {},
                           .overwrite = o.overwrite,
                           .threads = o.run.threads,
                           .command = quality_command_line(o)};
  SweepView view(o.quiet);
  const QualityResult result =
      run_quality(plan, {.command = sweep.command, .machine = machine, .date = origin.date}, sweep,
                  view, stop_flag());
  view.finish();
  finish_sweeps(
      o.run, o.out, result.interrupted, result.failed, [&] { return to_json(result.table); },
      [&] { return quality_markdown(result.table); });
}

void add_quality_options(CLI::App& command, QualityFlags& o) {
  const auto list = [&](const char* flag, auto& to, const std::string& text) {
    command.add_option(flag, to, text)->delimiter(',');
  };
  command.add_option("tasks", o.quality.tasks,
                     cat("Some of ", join(quality_tasks(), ", "), " (default: all)"));
  list("--contestants", o.quality.contestants,
       cat("Some of ", join(quality_contestants(), ", "), " (default: all)"));
  list("--seeds", o.quality.seeds, "Seeds that are reported (default: 0,1,2)");
  list("--learning-rates", o.quality.learning_rates,
       "The best one is used for each contestant and task (default: 0.001,0.003,0.01)");
  command
      .add_option(
          "--data", o.data,
          "TASK=PATH (may be repeated); words, characters and image are left out without it")
      ->take_all();
  command
      .add_option("--set", o.set, "KEY=VALUE: a setting of all runs, over the tasks' (repeatable)")
      ->take_all();
  command.add_flag("--quick", o.quality.quick, "Tiny models and few steps: about a minute");
  command.add_option("--out", o.out, "Folder of runs and results")->capture_default_str();
  command.add_flag("--overwrite", o.overwrite,
                   "Train again the runs that were made with other settings");
  command.add_flag("--quiet", o.quiet, "No progress");
  add_run_options(command, o.run);
}

}  // namespace

void add_bench_quality_command(CLI::App& bench) {
  auto options = std::make_shared<QualityFlags>();
  CLI::App* command = bench.add_subcommand(
      "quality", "What token mixers learn: recall, state tracking, text, the arena's tasks");
  add_quality_options(*command, *options);
  add_example(*command,
              "  tost bench quality --quick\n"
              "  tost bench quality --data words=wikitext-2 --data image=cifar10 --threads 1\n"
              "Runs that are done are kept; one that was interrupted is resumed.");
  command->callback([options] { run_bench_quality(*options); });
}

}  // namespace tost
