// tost sweep: many training runs from one file, and what came out of them.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/cli/terminal.h"
#include "tost/sweep/sweep_report.h"
#include "tost/train/run_kind.h"

namespace tost {
namespace {

using nlohmann::json;

struct Options {
  std::string file, out;
  std::vector<std::string> only, set;
  bool dry_run = false, overwrite = false, quiet = false;
  RunOptions run;
};

std::string title_of(const PlannedRun& run) {
  return cat(run.variant, " seed ", run.seed);
}

// Progress on stderr.
class SweepView : public SweepListener {
 public:
  explicit SweepView(bool quiet) : quiet_(quiet), line_(quiet) {}

  void on_run(const SweepStep& step, int64_t number, int64_t count) override {
    place_ = cat("[", number, "/", count, "] ", title_of(step.run));
  }
  void on_stage(const std::string& stage) override {
    stage_ = stage;
    if (!quiet_ && stage != "scoring") line_.print(place_ + ": " + stage);
  }
  void on_step(const StepReport& report, double left_s) override {
    char text[64];
    std::snprintf(text, sizeof text, "loss %.3f", report.loss);
    line_.update(report.step, report.total_steps,
                 cat(place_, "  ", stage_, "  ", text,
                     std::isfinite(left_s) ? "  left " + human_duration(left_s) : ""));
  }
  void on_done(const SweepStep& step) override {
    if (quiet_ || !step.record) return;
    const RunRecord& record = *step.record;
    if (!record.error.empty()) line_.print(place_ + ": failed: " + record.error);
    if (record.state == RunState::kDone) line_.print(place_ + ": " + scores_of(record));
  }
  void on_message(const std::string& message) override {
    if (!quiet_) line_.print(place_ + ": " + message);
  }
  void finish() { line_.finish(); }

 private:
  static std::string scores_of(const RunRecord& record) {
    const double value = record.scores.at(record.metric);
    char text[64];
    const bool percent = record.metric == "top1";
    std::snprintf(text, sizeof text, percent ? "top-1 %.2f %%" : "loss %.4f",
                  percent ? 100 * value : value);
    return record.seconds ? cat(text, ", trained in ", human_duration(*record.seconds)) : text;
  }

  bool quiet_;
  ProgressLine line_;
  std::string place_, stage_;
};

// "epochs=1" into the settings; which kind of run has the setting does not matter for its type.
void set_value(SweepSpec& spec, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    fail_usage("--set '", text, "' must be KEY=VALUE, as in --set epochs=1.");
  }
  const std::string key = text.substr(0, equals);
  std::vector<std::string> known;
  for (const RunKind& kind : run_kinds()) {
    for (const FieldInfo& field : kind.fields) {
      known.push_back(field.key);
      if (field.key != key) continue;
      const json value = value_from_text(field, text.substr(equals + 1));
      spec.settings = merge(spec.settings, json{{key, value}});
      return;
    }
  }
  fail_unknown_key(key, known, "--set");
}

// For a shell: in single quotes where it holds anything but plain characters.
std::string quoted(const std::string& text) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("._-/=+:,").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string command_line(const Options& options) {
  std::string command = "tost sweep " + quoted(options.file) + " --out " + quoted(options.out);
  for (const std::string& text : options.set) command += " --set " + quoted(text);
  if (options.run.threads > 0) command += cat(" --threads ", options.run.threads);
  return command;
}

json plan_json(const std::vector<SweepStep>& steps) {
  json runs = json::array();
  for (const SweepStep& step : steps) {
    runs.push_back({{"variant", step.run.variant},
                    {"seed", step.run.seed},
                    {"action", action_name(step.action)},
                    {"folder", step.run.folder.generic_string()},
                    {"settings", step.run.settings},
                    {"pretrain", step.run.pretrain ? *step.run.pretrain : json()}});
  }
  return {{"runs", runs}};
}

void print_plan(const std::vector<SweepStep>& steps) {
  for (const SweepStep& step : steps) {
    std::cout << action_name(step.action) << "  " << title_of(step.run) << "  "
              << step.run.settings.dump() << "\n";
    if (step.run.pretrain) std::cout << "  pretrain  " << step.run.pretrain->dump() << "\n";
  }
}

void print_result(const SweepSpec& spec, const SweepPlan& plan, const SweepResult& result,
                  const Options& options) {
  const SweepSummary summary = summarize(spec, plan, result.steps);
  if (options.run.json) {
    json report = results_json(spec, summary, result.steps);
    report["out"] = options.out;
    report["interrupted"] = result.interrupted;
    return print_json(report);
  }
  if (result.interrupted) {
    std::cout << "stopped, and saved; the same command goes on\n";
  } else {
    std::cout << results_markdown(spec, summary, result.steps) << "\n";
  }
  std::cout << options.out << "\n";
}

void run_sweep_command(Options& options) {
  if (options.run.threads < 0 || options.run.threads > 4096) {
    fail_usage("--threads is ", options.run.threads, "; 0 (all cores) to 4096 are possible.");
  }
  SweepSpec spec = read_sweep_file(options.file);
  for (const std::string& text : options.set) set_value(spec, text);
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
  print_result(spec, plan, result, options);
  if (result.failed > 0) set_exit_code(kExitData);
  if (result.interrupted) set_exit_code(kExitInterrupted);
}

}  // namespace

void add_sweep_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("sweep", "Train variants with several seeds and compare them");
  auto options = std::make_shared<Options>();
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
              "Runs that are done are kept; one that was interrupted goes on.");
  command->callback([options] { run_sweep_command(*options); });
}

}  // namespace tost
