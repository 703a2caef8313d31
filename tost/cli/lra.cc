// tost lra: the Long Range Arena, or a reduced form of it, from one command.
#include <iostream>

#include "tost/base/cpu_info.h"
#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/cli/sweep_view.h"
#include "tost/study/lra_table.h"
#include "tost/train/config_field.h"

namespace tost {
namespace {

using nlohmann::json;

struct LraFlags {
  LraOptions lra;
  std::vector<std::string> tasks, data, set;
  std::string out = "lra";
  bool dry_run = false, overwrite = false, quiet = false;
  RunOptions run;
};

LraOptions options_of(const LraFlags& options) {
  LraOptions lra = options.lra;
  if (options.tasks != std::vector<std::string>{"all"}) lra.tasks = options.tasks;
  for (const std::string& text : options.data) add_task_data(text, lra.data);
  for (const std::string& text : options.set) {
    lra.settings = merge(lra.settings, setting_from_text(text));
  }
  return lra;
}

std::string lra_command_line(const LraFlags& o) {
  std::string command = "tost lra " + join(o.tasks, " ") + " --protocol " + o.lra.protocol;
  if (o.lra.one) command += " --one";
  if (o.lra.reduced) command += " --reduced";
  command += " --mixers " + join(o.lra.mixers, ",") + " --seeds " + join_numbers(o.lra.seeds);
  for (const std::string& text : o.data) command += " --data " + quoted(text);
  for (const std::string& text : o.set) command += " --set " + quoted(text);
  if (o.run.threads > 0) command += cat(" --threads ", o.run.threads);
  return command + " --out " + quoted(o.out);
}

std::string title_of(const LraFlags& o) {
  const std::string title = "Long Range Arena, " + lra_protocol_title(o.lra);
  return o.lra.reduced ? title + ", reduced" : title;
}

void show_plan(const LraPlan& plan, const SweepOptions& sweep, bool as_json) {
  const auto steps = lra_steps(plan, sweep);
  json report = json::object();
  for (const LraTask& task : plan.tasks) {
    if (as_json) {
      report[task.name] = plan_json(steps.at(task.name));
    } else {
      std::cout << task.spec.title << ", scored on the " << task.spec.split << " split\n";
      print_plan(steps.at(task.name));
    }
  }
  if (as_json) print_json(report);
}

void run_lra_command(const LraFlags& options) {
  check_threads(options.run.threads);
  const LraPlan plan = plan_lra(options_of(options));
  for (const LraMissing& missing : plan.missing) std::cerr << "note: " << missing.why << "\n";
  const SweepOptions sweep{.out = options.out,
                           .only = {},
                           .overwrite = options.overwrite,
                           .threads = options.run.threads,
                           .command = lra_command_line(options)};
  if (options.dry_run) return show_plan(plan, sweep, options.run.json);
  SweepView view(options.quiet);
  const LraResult result = run_lra(plan, title_of(options), sweep, view, stop_flag());
  view.finish();
  finish_sweeps(
      options.run, options.out, result.interrupted, result.failed,
      [&] { return to_json(result.table); }, [&] { return lra_markdown(result.table); });
}

}  // namespace

void add_lra_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("lra", "Train and compare token mixers on the Long Range Arena");
  auto options = std::make_shared<LraFlags>();
  command
      ->add_option("tasks", options->tasks,
                   "all, or some of listops, text, retrieval, image, pathfinder, pathx")
      ->required();
  add_value(*command, "--protocol", options->lra.protocol,
            "google (the benchmark's base sizes) or s4 (larger, longer)");
  command->add_flag("--one", options->lra.one, "One set of hyperparameters for every task");
  command->add_flag("--reduced", options->lra.reduced,
                    "Width, lengths and steps that one core does in minutes a run; one thread "
                    "unless --threads says more");
  add_value(*command, "--mixers", options->lra.mixers, "Token mixers")->delimiter(',');
  add_value(*command, "--seeds", options->lra.seeds, "Seeds")->delimiter(',');
  command
      ->add_option("--data", options->data,
                   "TASK=PATH (may be repeated); without it ListOps, Pathfinder and Path-X are "
                   "generated, and the other tasks left out")
      ->take_all();
  command
      ->add_option("--set", options->set,
                   "KEY=VALUE: a setting of all runs, over the recipes' (may be repeated)")
      ->take_all();
  add_value(*command, "--out", options->out, "Folder of runs and results");
  command->add_flag("--dry-run", options->dry_run, "Show what would be done");
  command->add_flag("--overwrite", options->overwrite,
                    "Train again the runs that were made with other settings");
  command->add_flag("--quiet", options->quiet, "No progress");
  add_run_options(*command, options->run);
  add_example(
      *command,
      "  tost lra all --data text=imdb --data retrieval=aan --data image=cifar10 --out lra\n"
      "  tost lra listops --reduced --out lra-small --threads 1\n"
      "Runs that are done are kept; one that was interrupted is resumed.");
  command->callback([options] { run_lra_command(*options); });
}

}  // namespace tost
