// tost eval: scores a trained model on a data set.
#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/eval_command.h"
#include "tost/cli/field_option.h"
#include "tost/cli/kind_flags.h"
#include "tost/cli/program.h"
#include "tost/engine/run_layout.h"
#include "tost/kinds/kinds.h"
#include "tost/train/config_form.h"

namespace tost {
namespace {

using nlohmann::json;

struct ScoreCommand : EvalCommand {
  ScoreRequest score;
  std::string data_format = "auto";
  json data_values = json::object();  // settings of the data that were given
};

// Prints a row with a count and a top-1 accuracy; the accuracy is null if the count is 0.
void print_share(const std::string& name, int64_t count, const json& top1) {
  std::cout << "  " << std::left << std::setw(24) << name << std::right << std::setw(8) << count;
  if (top1.is_number()) {
    std::cout << std::setw(9) << std::fixed << std::setprecision(2) << 100 * top1.get<double>()
              << " %";
  }
  std::cout << "\n";
}

std::string tokens_of(const json& row) {
  const auto shortest = row["shortest"].get<int64_t>(), longest = row["longest"].get<int64_t>();
  return shortest == longest ? cat(shortest, " tokens") : cat(shortest, " to ", longest, " tokens");
}

// The key, in a classifier's report, of the number of pictures or sequences.
std::string items_of(const json& report) {
  return report.contains("images") ? "images" : "sequences";
}

void print_scores(const json& report) {
  const std::string items = items_of(report);
  const auto label = [&](const std::string& name) {
    std::cout << std::left << std::setw(int(items.size()) + 2) << name << std::right << std::fixed;
  };
  for (const char* key : {"top1", "top5"}) {
    if (!report.contains(key)) continue;
    label(key);
    std::cout << std::setprecision(2) << 100 * report[key].get<double>() << " %\n";
  }
  label("loss");
  std::cout << std::setprecision(4) << plain_nan(report["loss"].get<double>()) << "\n";
  const auto count = report[items].get<int64_t>();
  label(items);
  std::cout << human_number(count) << " (" << report["split"].get<std::string>() << "), "
            << report["precision"].get<std::string>() << ", " << std::setprecision(0)
            << double(count) / std::max(report["seconds"].get<double>(), 1e-9) << " a second\n";
  label("model");
  std::cout << report["checkpoint"].get<std::string>() << "\n";
  if (report.contains("corruption")) {
    label("damage");
    std::cout << report["corruption"]["kind"].get<std::string>() << ", strength "
              << report["corruption"]["strength"].get<int64_t>() << "\n";
  }
  for (const json& row : report.value("by_length", json::array()))
    print_share(tokens_of(row), row[items], row["top1"]);
  for (const json& row : report.value("per_class", json::array()))
    print_share(row["class"], row[items], row["top1"]);
}

void run_scores(const CLI::App& app, const Kind& kind, ScoreCommand& command) {
  check_eval(app, command);
  set_threads(command.run.threads);
  ScoreRequest& request = command.score;
  request.file = command.model.path;
  request.weights = command.model.weights();
  request.device = command.run.device;
  request.precision = command.model.precision;
  request.split = command.split;
  request.batch = command.batch;
  json flag_values = command.data_values;
  flag_values["data"] = command.model.data;
  if (app.count("--data-format") > 0) flag_values["data_format"] = command.data_format;
  if (app.count("--holdout") > 0) flag_values["holdout"] = command.model.holdout;
  request.data = scored_data(flag_values, find_model_file(command.model.path, request.weights),
                             kind.data_keys);
  ProgressLine progress(command.quiet || command.run.json);
  request.progress = [&](int64_t done, int64_t total, const char* what) {
    progress.update(done, total, what);
  };
  if (!command.run.json) {
    request.warn = [](const std::string& sentence) {
      std::cerr << "warning: " << sentence << "\n";
    };
  }
  request.stop = stop_flag();
  json report = kind.score(request);
  progress.finish();
  if (report.is_null()) return say_interrupted();
  report["data"] = command.model.data;
  command.run.json ? print_json(report) : print_scores(report);
}

// Scores a run folder with the data, batch, precision and weights of its training. Returns false if
// --data is set, or the run does not name its data.
bool score_run_data(const CLI::App& app, const Kind& kind, ScoreCommand& options) {
  const std::filesystem::path file = std::filesystem::path(options.model.path) / kConfigFile;
  if (app.count("--data") > 0 || !is_plain_file(file)) return false;
  json saved = read_config_file(file);
  const RunKind& run = choose_run_kind(json::object(), &saved);
  if (!run.scored) return false;
  saved = merge(run.usual(saved.value("recipe", run.recipes.front())), saved);
  for (const char* flag : {"--data-format", "--holdout", "--batch", "--precision", "--ema",
                           "--per-class", "--engine", "--device"}) {
    if (app.count(flag) > 0) fail_usage(flag, " needs --data; without it the run's settings hold.");
  }
  set_threads(options.run.threads);
  ScoreRequest& request = options.score;
  request.file = options.model.path;
  request.as_trained = true;
  request.weights = saved.at("evaluate_ema").get<bool>() ? Weights::kEma : Weights::kRaw;
  request.precision = saved.at("precision");
  request.batch = saved.at("eval_batch");
  request.split = options.split.empty() ? "test" : options.split;
  request.engine = false;
  request.workers = 0;
  std::vector<std::string> keys = kind.data_keys;
  keys.insert(keys.end(), {"data", "data_format", "holdout"});
  for (const std::string& key : keys) request.data[key] = saved.at(key);
  request.stop = stop_flag();
  const json found = kind.score(request);
  if (found.is_null()) {
    say_interrupted();
    return true;
  }
  json report{{"split", request.split}, {"top1", found["top1"]}};
  for (const char* key : {"top5", "loss"}) {
    if (found.contains(key) && !found.contains("corruption")) report[key] = found[key];
  }
  if (found.contains("corruption")) report["corruption"] = found["corruption"];
  if (options.run.json) {
    print_json(report);
  } else {
    std::cout << "top1    " << format_text("%.2f", 100 * report["top1"].get<double>()) << " % ("
              << request.split << ")\n";
  }
  return true;
}

void run_eval(const CLI::App& app, const KindFlags& flags, ScoreCommand& command) {
  const Kind& kind = kind_named(model_kind(command.model.path, command.model.weights()));
  check_kind(kind, flags);
  if (score_run_data(app, kind, command)) return;
  kind.name == "language" ? run_language_eval(app, command) : run_scores(app, kind, command);
}

// Adds flags for the settings of the data that affect scores.
void add_data_settings(CLI::App& app, const Kind& kind, ScoreCommand& command, KindFlags& flags) {
  for (const std::string& key : kind.data_keys) {
    CLI::Option* option = app.get_option_no_throw(flag_of(key));
    if (option == nullptr) {
      FieldInfo field = *std::ranges::find(kind.runs.front().fields, key, &FieldInfo::key);
      field.help += " (default: the run's)";
      option = add_field_option(app, field, command.data_values);
      option->group(kind.label == "image" ? "Image models" : "Sequence models");
    } else {
      option->group("Image and sequence models");
    }
    flags[kind.name].push_back(option);
  }
}

void add_picture_options(CLI::App& app, ScoreCommand& command, KindFlags& flags) {
  ScoreRequest& score = command.score;
  std::vector<CLI::Option*> options{
      add_value(app, "--workers", score.workers, "Loader threads"),
      app.add_option("--corrupt", score.corruption.kind,
                     "Damage the pictures, once they have the model's size: " +
                         join(corruption_kinds(), ", "))};
  options.push_back(add_value(app, "--strength", score.corruption.strength, "of --corrupt, 1 to 5")
                        ->needs("--corrupt"));
  for (CLI::Option* option : options) option->group("Image models");
  flags["vision"] = options;
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto options = std::make_shared<ScoreCommand>();
  auto flags = std::make_shared<KindFlags>();
  CLI::App* command = add_eval_command(app, *options);
  add_value(*command, "--data-format", options->data_format,
            "auto, idx, cifar10, cifar100, folder or shapes");
  command->add_flag("--per-class", options->score.per_class, "Accuracy of each class as well");
  command->add_flag("--engine,!--no-engine", options->score.engine,
                    "Through the inference engine, or layer by layer");
  add_picture_options(*command, *options, *flags);
  (*flags)["language"] = add_language_eval_options(*command, *options);
  for (const Kind& kind : kinds()) add_data_settings(*command, kind, *options, *flags);
  (*flags)["sequence"].push_back(command->get_option("--holdout"));
  for (const char* shared : {"--data-format", "--per-class"}) {
    command->get_option(shared)->group("Image and sequence models");
    for (const char* kind : {"vision", "sequence"})
      (*flags)[kind].push_back(command->get_option(shared));
  }
  command->get_option("--engine")->group("Image models");
  (*flags)["vision"].push_back(command->get_option("--engine"));
  command->callback([command, flags, options] { run_eval(*command, *flags, *options); });
}

}  // namespace tost
