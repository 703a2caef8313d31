// tost train: trains a model by flags or a configuration file, and shows progress.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <map>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/build_info.h"
#include "tost/cli/commands.h"
#include "tost/cli/field_option.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/cli/terminal.h"
#include "tost/comm/group.h"
#include "tost/engine/run_layout.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/kinds.h"
#include "tost/kinds/train_run.h"
#include "tost/train/config_form.h"

namespace tost {
namespace {

using nlohmann::json;

struct TrainFlags {
  std::string out;
  std::string config_file;
  double minutes = 0;
  bool resume = false;
  bool overwrite = false;
  bool as_json = false;
  bool quiet = false;
  bool dry_run = false;
  json flags = json::object();
};

// Shows the progress of training on stderr.
class TrainView : public TrainListener {
 public:
  explicit TrainView(bool quiet) : quiet_(quiet), line_(quiet) {}

  void on_start(const StartReport& report) override {
    unit_ = report.unit;
    parameters_ = report.parameters;
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
    std::string text = cat("step ", metrics.value("step", int64_t{0}), ": ",
                           metrics.value("split", std::string("score")));
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
  void note(const std::string& message) {
    if (!quiet_) line_.print(message);
  }
  void finish() { line_.finish(); }
  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  int64_t parameters() const { return parameters_; }

 private:
  bool quiet_;
  ProgressLine line_;
  std::string unit_ = "images";
  int64_t steps_per_epoch_ = 0, parameters_ = 0;
};

json read_values(const TrainFlags& options) {
  json values =
      options.config_file.empty() ? json::object() : read_config_file(options.config_file);
  return merge(values, options.flags);
}

// The result as JSON; `cpu_seconds` is the processor time of this process while it trained.
json to_json(const TrainResult& result, const TrainFlags& options, int64_t parameters,
             double cpu_seconds) {
  json report = TOST_MEMBERS(result, step, total_steps, interrupted, seconds);
  report.update({{"parameters", parameters}, {"cpu_seconds", cpu_seconds}});
  report["events"] = TOST_MEMBERS(result.events, skipped_steps, rollbacks, data_waits);
  report.update({{"out", options.out}, {"eval", result.last_eval}});
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

// Describes events as "; 3 steps skipped, 1 rollback"; empty if there were none.
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

// Formats a step as "epoch 4", or as "step 250" in a run that is shorter than an epoch.
std::string show_time(int64_t step, int64_t steps_per_epoch) {
  if (steps_per_epoch < 1 || step < steps_per_epoch) return cat("step ", human_number(step));
  return cat("epoch ", (step - 1) / steps_per_epoch + 1);
}

// Formats scores as "best validation top-1 91.20 % (epoch 4), last 90.81 %".
std::string show_scores(const TrainResult& result, int64_t steps_per_epoch) {
  if (!result.best) return "not evaluated";
  std::string text = "best ";
  if (result.last_eval.is_object()) text += result.last_eval.value("split", "") + " ";
  text += cat(show_metric(result.metric, result.best->value), " (",
              show_time(result.best->step, steps_per_epoch), ")");
  if (result.best->step == result.step || !result.last_eval.is_object()) return text;
  const auto last = result.last_eval.find(result.metric);
  if (last == result.last_eval.end() || !last->is_number()) return text;
  return text + ", last " + show_metric(result.metric, last->get<double>());
}

// The command that scores the run on the test split; "" if there is no such split.
std::string next_command(const std::string& run) {
  const json config = read_config_file(std::filesystem::path(run) / kConfigFile);
  return cat("tost eval ", quoted(run), " --data ", quoted(config.value("data", "")));
}

void print_result(const TrainResult& result, const TrainFlags& options, int64_t steps_per_epoch) {
  if (result.replaced_restored) {
    std::cout << "stopped after step " << result.step << " of " << result.total_steps
              << ", nothing saved; the run that was to be replaced is back in " << options.out
              << "\n";
    return;
  }
  if (result.interrupted) {
    std::cout << "stopped after step " << result.step << " of " << result.total_steps
              << show_events(result.events) << ", saved; resume with: tost train --out "
              << quoted(options.out) << " --resume\n";
    return;
  }
  std::cout << "trained " << human_number(result.step) << " steps in "
            << human_duration(result.seconds) << show_events(result.events) << "\n"
            << options.out << ": " << show_scores(result, steps_per_epoch)
            << ". Next: " << next_command(options.out) << "\n";
}

// Connects to the other processes if torchrun has started several; returns null for one process.
std::unique_ptr<Group> meet(TrainRun& run) {
  const std::optional<GroupPlace> place = place_from_environment();
  if (!place) return nullptr;
  run.noise_by_batch = true;
  run.build = cat(build_version(), " ", build_commit());
  if (place->world == 1) {
    run.launch = launch_from_environment();
    return nullptr;
  }
  const auto timeout = run.values.find("peer_timeout");
  const bool has_timeout = timeout != run.values.end() && timeout->is_number();
  auto group =
      std::make_unique<Group>(*place, has_timeout ? timeout->get<double>() : kDefaultPeerTimeout);
  run.group = group.get();
  if (group->first()) run.launch = launch_from_environment();
  return group;
}

// Refuses --minutes, before anything is measured, in a run that cannot use it.
void check_minutes(const TrainRun& run) {
  const auto check = [&] {
    if (run.group == nullptr && run.mode != RunMode::kResume) return std::string();
    fail_usage("--minutes is for a new run of one process; give --max-steps instead.");
  };
  run.group == nullptr ? check() : run.group->by_first(check);
}

// Sets max_steps to the number of steps that fit in --minutes; returns false if the user stopped.
bool fit_steps(TrainRun& run, double minutes, TrainView& view) {
  check_minutes(run);
  if (!run.launch.empty() && made_by_launch(run.out, run.launch)) return true;  // has its steps
  view.note("Measuring the speed of the first steps ...");
  const std::optional<int64_t> steps = steps_of_time(run, minutes, stop_flag());
  if (!steps) {
    set_exit_code(kExitInterrupted);
    std::cout << "stopped before the first step, nothing saved\n";
    return false;
  }
  view.note(cat("max_steps is ", *steps, ": about ", minutes, " minutes on this machine."));
  run.values["max_steps"] = *steps;
  return true;
}

// Prints the complete settings of a new run, or refuses them, without reading data.
void show_settings(const json& values) {
  const RunKind& kind = choose_run_kind(values);
  const PreparedRun run = kind.prepare(values, nullptr);
  if (kind.check) kind.check(run.config);
  json report = TOST_MEMBERS(kind, metric, corruptible, scored);
  report.update({{"kind", kind.name}, {"config", run.config}});
  print_json(report);
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
  if (options.dry_run) return show_settings(run.values);
  const std::unique_ptr<Group> group = meet(run);
  TrainView view(options.quiet);
  if (options.minutes > 0 && !fit_steps(run, options.minutes, view)) return;
  const std::clock_t start = std::clock();
  const TrainResult result = train(run, view, stop_flag());
  const double cpu_seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
  if (result.interrupted) set_exit_code(kExitInterrupted);
  if (!is_first(run.group)) return;
  view.finish();
  options.as_json ? print_json(to_json(result, options, view.parameters(), cpu_seconds))
                  : print_result(result, options, view.steps_per_epoch());
}

// A message if the text is not a valid number of minutes, else "".
std::string why_no_minutes(const std::string& text) {
  double minutes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), minutes);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && minutes >= 0.05 && minutes <= 1e6
             ? ""
             : cat("'", text, "' is not a number from 0.05 to 1,000,000");
}

// Every setting once, with the widest range of all kinds; the selected kind checks its range.
std::vector<FieldInfo> widest_fields() {
  std::vector<FieldInfo> all;
  for (const RunKind& kind : run_kinds()) {
    for (const FieldInfo& field : kind.fields) {
      const auto found = std::find_if(
          all.begin(), all.end(), [&](const FieldInfo& other) { return other.key == field.key; });
      if (found == all.end()) {
        all.push_back(field);
        continue;
      }
      found->low = std::min(found->low, field.low);
      found->high = std::max(found->high, field.high);
      join_choices(*found, field);
    }
  }
  return all;
}

// Adds flags that write into `values`, which must outlive the command; returns them by their keys.
std::map<std::string, CLI::Option*> add_train_fields(CLI::App& command, nlohmann::json& values) {
  std::vector<FieldInfo> fields = widest_fields();
  // Sorts fields first, because --help lists flags in the order in which they are added.
  std::stable_sort(fields.begin(), fields.end(), [](const FieldInfo& a, const FieldInfo& b) {
    return train_place(a.key) < train_place(b.key);
  });
  std::map<std::string, CLI::Option*> options;
  for (const FieldInfo& field : fields) {
    options[field.key] = add_field_option(command, field, values);
  }
  return options;
}

}  // namespace

void add_train_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "Train a model");
  auto options = std::make_shared<TrainFlags>();
  command->add_option("--out", options->out, "Run folder to write")->required()->group("What");
  command->add_option("--config", options->config_file, "JSON file of settings; flags override it")
      ->group("What");
  command->add_flag("--resume", options->resume, "Resume the run in --out")->group("What");
  command->add_flag("--overwrite", options->overwrite, "Replace the run in --out")->group("What");
  command->add_flag("--json", options->as_json, "One JSON object on stdout instead of text")
      ->group("What");
  command->add_flag("--quiet", options->quiet, "No progress")->group("What");
  command
      ->add_flag("--dry-run", options->dry_run,
                 "Check the settings and print them with the kind of run as JSON; train nothing")
      ->excludes("--resume")
      ->group("What");
  const auto fields = add_train_fields(*command, options->flags);
  accept_shipped_names(*fields.at("from"));
  command
      ->add_option("--minutes", options->minutes,
                   "Train for about so long: max_steps follows from the speed of the first steps")
      ->check(CLI::Validator(why_no_minutes, ""))
      ->option_text("FLOAT")
      ->excludes(fields.at("epochs"), fields.at("max_steps"))
      ->group("What");
  set_train_help(*command, fields,
                 "Example:\n"
                 "  tost train --data shapes --epochs 2 --out run");
  command->callback([options] { run_train(*options); });
}

}  // namespace tost
