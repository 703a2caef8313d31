// tost sweep: many training runs from one file, and what came out of them.
#include <filesystem>
#include <iostream>

#include "tost/base/cpu_info.h"
#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/cli/sweep_view.h"
#include "tost/study/sweep_report.h"

namespace tost {
namespace {

using nlohmann::json;

struct SweepFlags {
  std::string file, out;
  std::vector<std::string> only, set;
  bool dry_run = false, overwrite = false, quiet = false;
  RunOptions run;
};

std::string command_line(const SweepFlags& options) {
  std::string command = "tost sweep " + quoted(options.file) + " --out " + quoted(options.out);
  for (const std::string& text : options.set) command += " --set " + quoted(text);
  if (options.run.threads > 0) command += cat(" --threads ", options.run.threads);
  return command;
}

void run_sweep_command(SweepFlags& options) {
  check_threads(options.run.threads);
  SweepSpec spec = read_sweep_file(options.file);
  for (const std::string& text : options.set) {
    spec.settings = merge(spec.settings, setting_from_text(text));
  }
  if (options.out.empty()) {
    options.out = std::filesystem::path(options.file).stem().string() + "-sweep";
  }
  SweepOptions sweep{.out = options.out,
                     .only = options.only,
                     .overwrite = options.overwrite,
                     .threads = options.run.threads,
                     .command = command_line(options)};
  const SweepPlan plan = make_plan(spec);
  if (options.dry_run) {
    const std::vector<SweepStep> steps = sweep_steps(spec, plan, sweep);
    return options.run.json ? print_json(plan_json(steps)) : print_plan(steps);
  }
  SweepView view(options.quiet);
  const SweepResult result = run_sweep(spec, sweep, view, stop_flag());
  view.finish();
  const SweepSummary summary = summarize(spec, plan, result.steps);
  finish_sweeps(
      options.run, options.out, result.interrupted, result.failed,
      [&] { return results_json(spec, summary, result.steps); },
      [&] { return results_markdown(spec, summary, result.steps); });
}

}  // namespace

void add_sweep_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("sweep", "Train variants with several seeds and compare them");
  auto options = std::make_shared<SweepFlags>();
  command->add_option("file", options->file, "JSON file of the sweep")->required();
  command->add_option("--out", options->out, "Folder of runs and results (default: FILE-sweep)");
  command->add_option("--only", options->only, "Run these variants alone (may be repeated)")
      ->take_all();
  command
      ->add_option("--set", options->set,
                   "KEY=VALUE: a setting of all runs, over the file's (may be repeated)")
      ->take_all();
  command->add_flag("--dry-run", options->dry_run, "Show what would be done");
  command->add_flag("--overwrite", options->overwrite,
                    "Train again the runs that were made with other settings");
  command->add_flag("--quiet", options->quiet, "No progress");
  add_run_options(*command, options->run);
  add_example(*command,
              "  tost sweep sweeps/width.json --out width --threads 1\n"
              "  tost sweep sweeps/width.json --out width --only heads-8 --dry-run\n"
              "Runs that are done are kept; one that was interrupted is resumed.");
  command->callback([options] { run_sweep_command(*options); });
}

}  // namespace tost
