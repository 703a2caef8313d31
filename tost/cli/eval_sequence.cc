// The part of tost eval that concerns models of sequences.
#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/cli/eval_command.h"
#include "tost/cli/field_option.h"
#include "tost/cli/program.h"
#include "tost/cli/terminal.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/sequence/eval.h"
#include "tost/kinds/sequence/file.h"
#include "tost/kinds/sequence/train_config.h"
#include "tost/ops/device.h"
#include "tost/store/quantized_file.h"
#include "tost/store/run_layout.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kKeys[] = {"max_length", "data_seed",     "train_size", "test_size",
                                 "min_tokens", "max_tokens",    "max_depth",  "max_arguments",
                                 "contour_length"};

// What the run was trained with, where the checkpoint is a run folder.
json saved_settings(const EvalCommand& command) {
  const fs::path file = fs::path(command.checkpoint) / kConfigFile;
  if (!is_plain_file(file)) return json::object();
  const json saved = read_config_file(file);
  json settings = json::object();
  for (const char* key : kKeys) {
    if (saved.contains(key)) settings[key] = saved[key];
  }
  const json data = saved.value("data", json());
  if (!data.is_string() || !same_path(data, command.data.path)) return settings;
  for (const char* key : {"data_format", "holdout"}) {
    if (saved.contains(key)) settings[key] = saved[key];
  }
  return settings;
}

SequenceSpec spec_of(const CLI::App& app, const EvalCommand& command, const SequenceInfo& info) {
  json settings = saved_settings(command);
  settings["data"] = command.data.path;
  settings["max_length"] = info.cut;
  if (app.count("--data-format") > 0) settings["data_format"] = command.data.format;
  if (app.count("--holdout") > 0) settings["holdout"] = command.holdout;
  return sequence_spec(
      make_config(sequence_train_form(), merge(settings, command.sequence_values)));
}

json by_length(const SequenceEvalResult& result) {
  json rows = json::array();
  for (const LengthQuarter& q : result.quarters) {
    rows.push_back(TOST_MEMBERS(q, shortest, longest, sequences, top1));
  }
  return rows;
}

void print_eval_sequence(const json& report) {
  std::cout << std::fixed << std::setprecision(2) << "top1       "
            << 100 * report["top1"].get<double>() << " %\n"
            << std::setprecision(4) << "loss       " << plain_nan(report["loss"].get<double>())
            << "\n"
            << "sequences  " << human_number(report["sequences"].get<int64_t>()) << " ("
            << report["split"].get<std::string>() << "), " << report["precision"].get<std::string>()
            << "\n"
            << "model      " << report["checkpoint"].get<std::string>() << "\n"
            << std::setprecision(2);
  for (const json& row : report["by_length"]) {
    const auto shortest = row["shortest"].get<int64_t>(), longest = row["longest"].get<int64_t>();
    const std::string span =
        shortest == longest ? cat(shortest, " tokens") : cat(shortest, " to ", longest, " tokens");
    print_share(span, row["sequences"], row["top1"]);
  }
  if (!report.contains("per_class")) return;
  for (const json& row : report["per_class"]) {
    print_share(row["class"], row["sequences"], row["top1"]);
  }
}

}  // namespace

std::vector<CLI::Option*> add_sequence_eval_options(CLI::App& app, EvalCommand& command) {
  std::vector<CLI::Option*> options;
  for (const char* key : kKeys) {
    FieldInfo field = sequence_train_form().fields.field(key);
    field.help += " (default: the run's)";
    options.push_back(add_field_option(app, field, command.sequence_values));
    options.back()->group("Sequence models");
  }
  for (const char* shared : {"--data-format", "--per-class", "--holdout"}) {
    options.push_back(app.get_option(shared));
  }
  return options;
}

void run_sequence_eval(const CLI::App& app, EvalCommand& command) {
  require_data(app);
  set_threads(command.run.threads);
  const LoadedSequence loaded =
      load_sequence_file(command.checkpoint, command.ema ? Weights::kEma : Weights::kRaw);
  loaded.model->to(device_from_name(command.run.device));
  const std::string split = command.split.empty() ? "test" : command.split;
  const auto dataset = open_sequence_dataset(spec_of(app, command, loaded.info), split);
  check_sequence_data(loaded.info, *dataset, command.data.path);
  ProgressLine progress(command.quiet || command.run.json);
  SequenceEvalOptions options;
  if (command.batch > 0) options.batch = command.batch;
  options.precision = chosen_precision(command.precision, loaded.precision,
                                       classifier_precisions(/*engine=*/false));
  options.stop = stop_flag();
  options.progress = [&](int64_t done, int64_t total) {
    progress.update(done, total, "sequences scored");
  };
  const auto result = evaluate(*loaded.model, *dataset, options);
  progress.finish();
  if (!result) {
    std::cerr << "interrupted\n";
    return set_exit_code(kExitInterrupted);
  }
  json report = to_json(*result);
  report["by_length"] = by_length(*result);
  report["checkpoint"] = loaded.file.string();
  report["data"] = command.data.path;
  report["split"] = split;
  report["precision"] = options.precision;
  report["model"] = loaded.info.config.name;
  if (command.per_class)
    report["per_class"] = class_rows(result->confusion, loaded.info.classes, "sequences");
  command.run.json ? print_json(report) : print_eval_sequence(report);
}

}  // namespace tost
