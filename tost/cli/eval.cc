// tost eval: scores a trained model on a data set.
#include <algorithm>
#include <filesystem>
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
  bool engine = true;
  json data_values = json::object();  // settings of the data that were given
};

ScoreRequest request_of(const ScoreCommand& command, const ScoreOptions& options) {
  ScoreRequest request{{.file = command.model.path, .weights = command.model.weights()}, options};
  request.device = command.run.device;
  request.precision = command.model.precision;
  request.engine = command.engine;
  return request;
}

void run_scores(const CLI::App& app, const Kind& kind, ScoreCommand& command) {
  run_class_eval(app, command, [&](const ScoreOptions& options) {
    ScoreRequest request = request_of(command, options);
    json flag_values = command.data_values;
    flag_values["data"] = command.model.data;
    if (app.count("--data-format") > 0) flag_values["data_format"] = command.data_format;
    if (app.count("--holdout") > 0) flag_values["holdout"] = command.model.holdout;
    request.data =
        scored_data(flag_values, find_model_file(request.file, request.weights), kind.data_keys);
    return kind.score(request);
  });
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
  ScoreRequest request = request_of(options, options.score);
  request.as_trained = true;
  request.weights = saved.at("evaluate_ema").get<bool>() ? Weights::kEma : Weights::kRaw;
  request.precision = saved.at("precision");
  request.batch = saved.at("eval_batch");
  if (request.split.empty()) request.split = "test";
  request.engine = false;
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

}  // namespace

void add_eval_command(CLI::App& app) {
  auto options = std::make_shared<ScoreCommand>();
  auto flags = std::make_shared<KindFlags>();
  CLI::App* command = add_eval_command(app, *options);
  (*flags)["vision"] = add_picture_eval_options(*command, *options);
  (*flags)["vision"].push_back(command->add_flag(
      "--engine,!--no-engine", options->engine, "Through the inference engine, or layer by layer"));
  (*flags)["language"] = add_language_eval_options(*command, *options);
  for (const Kind& kind : kinds()) add_data_settings(*command, kind, *options, *flags);
  (*flags)["sequence"].push_back(command->get_option("--holdout"));
  for (const char* shared : {"--data-format", "--per-class"}) {
    command->get_option(shared)->group("Image and sequence models");
    (*flags)["sequence"].push_back(command->get_option(shared));
  }
  command->get_option("--engine")->group("Image models");
  command->callback([command, flags, options] { run_eval(*command, *flags, *options); });
}

}  // namespace tost
