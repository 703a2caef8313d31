// tost train: a run from flags or a configuration file to a run folder, with progress.
#include <cmath>
#include <iomanip>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/cli/terminal.h"
#include "tost/cli/train_flags.h"
#include "tost/train/run_kind.h"
#include "tost/train/train_run.h"

namespace tost {
namespace {

using nlohmann::json;

struct TrainFlags {
  std::string out;
  std::string config_file;
  bool resume = false;
  bool overwrite = false;
  bool as_json = false;
  bool quiet = false;
  json flags = json::object();
};

// Progress on stderr; the result is printed by the command itself.
class TrainView : public TrainListener {
 public:
  explicit TrainView(bool quiet) : quiet_(quiet), line_(quiet) {}

  void on_start(const StartReport& report) override {
    unit_ = report.unit;
    steps_per_epoch_ = report.steps_per_epoch;
    if (quiet_) return;
    line_.print(cat(human_number(report.parameters), " parameters, ",
                    human_number(report.total_steps), " steps, ",
                    human_number(report.steps_per_epoch), " an epoch",
                    report.first_step > 0 ? cat("; resumed after step ", report.first_step) : ""));
  }

  void on_step(const StepReport& report) override {
    const std::string accuracy =
        std::isfinite(report.accuracy) ? format_text("  acc %.1f%%", 100 * report.accuracy) : "";
    line_.update(report.step, report.total_steps,
                 format_text("epoch %lld  loss %.3f%s  %.0f %s/s  data %.0f%%  left %s",
                             static_cast<long long>(report.epoch + 1), report.loss,
                             accuracy.c_str(), report.samples_per_s, unit_.c_str(),
                             100 * report.wait_share, human_duration(report.eta_s).c_str()));
  }

  void on_eval(const json& metrics, bool best) override {
    if (quiet_) return;
    std::string text = cat("step ", metrics.value("step", int64_t{0}), ":");
    for (const auto& [key, value] : metrics.items()) {
      if (key == "epoch" || key == "step" || !value.is_number_float()) continue;
      if (key == "top1" || key == "top5" || key == "accuracy") {
        text += format_text("  %s %.2f%%", key.c_str(), 100 * value.get<double>());
      } else if (key == "loss") {
        text += format_text("  loss %.4f", value.get<double>());
      }
    }
    line_.print(text + (best ? "  (best so far)" : ""));
  }

  void on_sample(int64_t step, const std::string& text) override {
    if (!quiet_) line_.print(cat("--- sample after step ", step, " ---\n", text, "\n---"));
  }

  void on_message(const std::string& message) override { line_.print(message); }
  void finish() { line_.finish(); }

 private:
  bool quiet_;
  ProgressLine line_;
  std::string unit_ = "images";
  int64_t steps_per_epoch_ = 0;
};

json read_values(const TrainFlags& options) {
  json values =
      options.config_file.empty() ? json::object() : read_config_file(options.config_file);
  return merge(values, options.flags);
}

json to_json(const TrainResult& result, const TrainFlags& options) {
  json report = {{"out", options.out},
                 {"step", result.step},
                 {"total_steps", result.total_steps},
                 {"interrupted", result.interrupted},
                 {"seconds", result.seconds},
                 {"events",
                  {{"skipped_steps", result.events.skipped_steps},
                   {"rollbacks", result.events.rollbacks},
                   {"data_waits", result.events.data_waits}}},
                 {"eval", result.last_eval}};
  if (result.best) {
    report["best"] = {
        {"metric", result.metric}, {"value", result.best->value}, {"step", result.best->step}};
  }
  return report;
}

std::string show_metric(const std::string& name, double value) {
  if (name == "top1") return format_text("top-1 %.2f %%", 100 * value);
  if (name == "accuracy") return format_text("accuracy %.2f %%", 100 * value);
  return format_text("%s %.4f", name.c_str(), value);
}

// "; 3 steps skipped, 1 rollback"; empty where nothing happened.
std::string show_events(const RunEvents& events) {
  std::vector<std::string> parts;
  const auto add = [&](int64_t count, const char* one, const char* many) {
    if (count > 0) parts.push_back(cat(count, " ", count == 1 ? one : many));
  };
  add(events.skipped_steps, "step skipped", "steps skipped");
  add(events.rollbacks, "rollback", "rollbacks");
  add(events.data_waits, "long wait for data", "long waits for data");
  return parts.empty() ? "" : "; " + join(parts, ", ");
}

void print_result(const TrainResult& result, const TrainFlags& options) {
  if (result.put_back) {
    std::cout << "stopped after step " << result.step << " of " << result.total_steps
              << ", nothing saved; the run that was to be replaced is back in " << options.out
              << "\n";
    return;
  }
  if (result.interrupted) {
    std::cout << "stopped after step " << result.step << " of " << result.total_steps
              << show_events(result.events) << ", saved; go on with: tost train --out "
              << options.out << " --resume\n";
    return;
  }
  std::cout << "trained " << human_number(result.step) << " steps in "
            << human_duration(result.seconds);
  if (result.last_eval.is_object()) {
    const double last = result.last_eval.value(result.metric, std::nan(""));
    std::cout << "; " << show_metric(result.metric, last);
  }
  if (result.best && result.best->step != result.step) {
    std::cout << ", best " << show_metric(result.metric, result.best->value) << " at step "
              << result.best->step;
  }
  std::cout << show_events(result.events) << "\n" << options.out << "\n";
}

void run_train(const TrainFlags& options) {
  if (options.resume && options.overwrite)
    fail_usage("--resume and --overwrite exclude each other; give one.");
  TrainRun run;
  run.out = options.out;
  run.mode = options.resume      ? RunMode::kResume
             : options.overwrite ? RunMode::kOverwrite
                                 : RunMode::kNew;
  run.values = read_values(options);
  TrainView view(options.quiet);
  const TrainResult result = train(run, view, stop_flag());
  view.finish();
  options.as_json ? print_json(to_json(result, options)) : print_result(result, options);
  if (result.interrupted) set_exit_code(kExitInterrupted);
}

}  // namespace

void add_train_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "Train a model");
  auto options = std::make_shared<TrainFlags>();
  command->add_option("--out", options->out, "Run folder to write")->required()->group("What");
  command->add_option("--config", options->config_file, "JSON file of settings; flags override it")
      ->group("What");
  command->add_flag("--resume", options->resume, "Go on with the run in --out")->group("What");
  command->add_flag("--overwrite", options->overwrite, "Replace the run in --out")->group("What");
  command->add_flag("--json", options->as_json, "One JSON object on stdout instead of text")
      ->group("What");
  command->add_flag("--quiet", options->quiet, "No progress")->group("What");
  add_train_fields(*command, options->flags);
  add_example(*command,
              "  tost train --data fashion-mnist --model tost_nano_p4 --epochs 5 --out run\n"
              "  tost train --data tinyshakespeare --model tost_gpt_char --out run\n"
              "Defaults shown are those of each kind's first recipe; config.json in the run folder "
              "holds what was used.");
  command->callback([options] { run_train(*options); });
}

}  // namespace tost
