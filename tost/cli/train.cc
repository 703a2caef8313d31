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
#include "tost/train/train_vision.h"

namespace tost {
namespace {

using nlohmann::json;

struct Options {
  std::string out;
  std::string config_file;
  bool resume = false;
  bool overwrite = false;
  bool as_json = false;
  bool quiet = false;
  json flags = json::object();
};

template <typename... Args>
std::string print(const char* format, Args... args) {
  char buffer[256];
  std::snprintf(buffer, sizeof buffer, format, args...);
  return buffer;
}

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
        std::isfinite(report.accuracy) ? print("  acc %.1f%%", 100 * report.accuracy) : "";
    line_.update(report.step, report.total_steps,
                 print("epoch %lld  loss %.3f%s  %.0f %s/s  data %.0f%%  left %s",
                       static_cast<long long>(report.epoch + 1), report.loss, accuracy.c_str(),
                       report.samples_per_s, unit_.c_str(), 100 * report.wait_share,
                       human_duration(report.eta_s).c_str()));
  }

  void on_eval(const json& metrics, bool best) override {
    if (quiet_) return;
    std::string text = cat("epoch ", metrics.value("epoch", int64_t{0}), ":");
    for (const auto& [key, value] : metrics.items()) {
      if (key == "epoch" || key == "step" || !value.is_number_float()) continue;
      if (key == "top1" || key == "top5") {
        text += print("  %s %.2f%%", key.c_str(), 100 * value.get<double>());
      } else if (key == "loss") {
        text += print("  loss %.4f", value.get<double>());
      }
    }
    line_.print(text + (best ? "  (best so far)" : ""));
  }

  void on_message(const std::string& message) override { line_.print(message); }
  void finish() { line_.finish(); }

 private:
  bool quiet_;
  ProgressLine line_;
  std::string unit_ = "images";
  int64_t steps_per_epoch_ = 0;
};

json read_values(const Options& options) {
  json values =
      options.config_file.empty() ? json::object() : read_config_file(options.config_file);
  return merge(values, options.flags);
}

json to_json(const TrainResult& result, const Options& options) {
  json report = {{"out", options.out},
                 {"step", result.step},
                 {"total_steps", result.total_steps},
                 {"interrupted", result.interrupted},
                 {"seconds", result.seconds},
                 {"eval", result.last_eval}};
  if (result.best) report["best"] = {{"value", result.best->value}, {"step", result.best->step}};
  return report;
}

void print_result(const TrainResult& result, const Options& options) {
  if (result.interrupted) {
    std::cout << "stopped after step " << result.step << " of " << result.total_steps
              << ", saved; go on with: tost train --out " << options.out << " --resume\n";
    return;
  }
  std::cout << "trained " << human_number(result.step) << " steps in "
            << human_duration(result.seconds);
  if (result.best) {
    std::cout << std::fixed << std::setprecision(2) << "; best " << 100 * result.best->value
              << " % top-1 at step " << result.best->step;
  }
  std::cout << "\n" << options.out << "\n";
}

void run_train(const Options& options) {
  if (options.resume && options.overwrite)
    fail_usage("--resume and --overwrite exclude each other; give one.");
  VisionRun run;
  run.out = options.out;
  run.mode = options.resume      ? RunMode::kResume
             : options.overwrite ? RunMode::kOverwrite
                                 : RunMode::kNew;
  run.values = read_values(options);
  TrainView view(options.quiet);
  const TrainResult result = train_vision(run, view, stop_flag());
  view.finish();
  options.as_json ? print_json(to_json(result, options)) : print_result(result, options);
  if (result.interrupted) set_exit_code(kExitInterrupted);
}

// Headings of --help, in order; keys not named here stand under "Options".
struct Heading {
  const char* title;
  std::vector<std::string> keys;
};

const std::vector<Heading>& headings() {
  static const std::vector<Heading> kHeadings = {
      {"What",
       {"recipe", "model", "mixer", "data", "epochs", "batch", "lr", "seed", "precision",
        "threads"}},
      {"Model", {"from", "image_size", "drop_path", "model_options"}},
      {"Data",
       {"data_format", "data_seed", "data_side", "train_size", "test_size", "holdout", "workers",
        "max_unreadable", "eval_batch", "resize", "crop_ratio", "interpolation"}},
      {"Augmentation",
       {"crop", "crop_pad", "crop_min_scale", "flip", "randaugment", "randaugment_magnitude",
        "randaugment_noise", "color_jitter", "erase", "mixup", "cutmix", "mix_probability",
        "mix_switch", "label_smoothing", "repeats"}},
      {"Optimisation",
       {"max_steps", "accumulate", "lr_reference_batch", "min_lr", "warmup_lr", "warmup_epochs",
        "schedule", "schedule_lag", "weight_decay", "decay_all", "beta1", "beta2", "eps", "clip",
        "ema_decay", "evaluate_ema"}},
      {"Records",
       {"evaluate_every", "checkpoint_every", "checkpoint_every_steps", "keep_last", "log_every"}},
  };
  return kHeadings;
}

std::string heading_of(const std::string& key) {
  for (const Heading& heading : headings()) {
    if (std::find(heading.keys.begin(), heading.keys.end(), key) != heading.keys.end())
      return heading.title;
  }
  return "Options";
}

std::string flag_name(const std::string& key) {
  std::string name = "--" + key;
  std::replace(name.begin() + 2, name.end(), '_', '-');
  return name;
}

void add_field(CLI::App& command, const FieldInfo& field, const json& usual,
               const std::shared_ptr<Options>& options) {
  const std::string flag = flag_name(field.key);
  CLI::Option* option = nullptr;
  if (field.type == FieldType::kBool) {
    option = command.add_flag_function(
        flag + ",!--no-" + flag.substr(2),
        [options, key = field.key](int64_t on) { options->flags[key] = on > 0; }, field.help);
  } else {
    const std::string choices = field.choices.empty() ? "" : " (" + join(field.choices, ", ") + ")";
    option = command.add_option_function<std::string>(
        flag,
        [options, field](const std::string& text) {
          options->flags[field.key] = value_from_text(field, text);
        },
        field.help + choices);
    const std::string shown = usual.is_string() ? usual.get<std::string>() : usual.dump();
    if (!shown.empty() && shown != "{}") option->default_str(shown);
  }
  option->group(heading_of(field.key))->take_last();
}

}  // namespace

void add_train_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "Train an image classifier");
  auto options = std::make_shared<Options>();
  command->add_option("--out", options->out, "Run folder to write")->required()->group("What");
  command->add_option("--config", options->config_file, "JSON file of settings; flags override it")
      ->group("What");
  command->add_flag("--resume", options->resume, "Go on with the run in --out")->group("What");
  command->add_flag("--overwrite", options->overwrite, "Replace the run in --out")->group("What");
  command->add_flag("--json", options->as_json, "One JSON object on stdout instead of text")
      ->group("What");
  command->add_flag("--quiet", options->quiet, "No progress")->group("What");
  const json usual = train_fields().to_json(recipe("small"));
  // In the order of the headings, so that --help shows them so.
  for (const Heading& heading : headings()) {
    for (const std::string& key : heading.keys) {
      add_field(*command, train_fields().field(key), usual[key], options);
    }
  }
  for (const FieldInfo& field : train_fields().fields()) {
    if (heading_of(field.key) == "Options") add_field(*command, field, usual[field.key], options);
  }
  add_example(*command,
              "  tost train --data fashion-mnist --model tost_nano_p4 --epochs 5 --out run\n"
              "Defaults shown are those of the recipe 'small'; config.json in the run folder holds "
              "what was used.");
  command->callback([options] { run_train(*options); });
}

}  // namespace tost
