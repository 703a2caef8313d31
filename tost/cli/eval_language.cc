// tost eval for language models.
#include <filesystem>
#include <iomanip>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/eval_command.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/cli/terminal.h"
#include "tost/data/token_task.h"
#include "tost/io/safe_text.h"
#include "tost/kinds/language/answer_eval.h"
#include "tost/kinds/language/engine.h"
#include "tost/kinds/language/file.h"
#include "tost/kinds/language/text.h"
#include "tost/kinds/language/text_tasks.h"
#include "tost/kinds/language/train_config.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/device.h"

namespace tost {
namespace {

using nlohmann::json;

const std::vector<std::string> kTasks = {"loss", "lambada", "choice"};
// The task for data with tokens and targets (token_task.h), which --task cannot name.
const std::string kAnswers = "answers";

// A flag, and the tasks that accept the flag.
struct TaskFlag {
  std::string flag;
  std::vector<std::string> tasks;
};
const std::vector<TaskFlag> kTaskFlags = {{"--protocol", {"loss"}},
                                          {"--context", {"loss"}},
                                          {"--stride", {"loss"}},
                                          {"--whole-text", {"loss"}},
                                          {"--batches", {"loss"}},
                                          {"--seed", {"loss"}},
                                          {"--split", {"loss", kAnswers}},
                                          {"--holdout", {"loss"}},
                                          {"--batch", {"loss", "lambada", kAnswers}},
                                          {"--tokenizer", {"loss", "lambada", "choice"}},
                                          {"--samples", {kAnswers}},
                                          {"--limit", {"lambada", "choice"}}};
const std::vector<std::string> kOfficialFlags = {"--batches", "--seed"};
const std::vector<std::string> kDefaultFlags = {"--stride", "--whole-text"};

std::string named(const std::string& task) {
  return task == kAnswers ? "data of a task of tokens" : "--task " + task;
}

void check_flags(const CLI::App& app, const EvalCommand& command) {
  const bool answers = command.task == kAnswers;
  if (!answers && std::find(kTasks.begin(), kTasks.end(), command.task) == kTasks.end()) {
    fail_usage("Unknown task '", command.task, "'; use ", join(kTasks, ", "), ".",
               did_you_mean(command.task, kTasks));
  }
  for (const auto& [flag, tasks] : kTaskFlags) {
    const bool fits = std::find(tasks.begin(), tasks.end(), command.task) != tasks.end();
    if (!fits && app.count(flag) > 0) {
      std::vector<std::string> names;
      for (const std::string& task : tasks) names.push_back(named(task));
      fail_usage(flag, " does not go with ", named(command.task), ", only with ",
                 join(names, " and "), ".");
    }
  }
  if (answers) return;
  const bool official = command.loss.protocol == "official";
  for (const std::string& flag : official ? kDefaultFlags : kOfficialFlags) {
    if (app.count(flag) == 0) continue;
    fail_usage(flag, " goes with the protocol ", official ? "usual" : "official", ", not with ",
               command.loss.protocol, ".");
  }
  if (command.whole_text && (app.count("--context") > 0 || app.count("--stride") > 0)) {
    fail_usage("--whole-text reads everything before a token; leave out --context and --stride.");
  }
  for (const char* flag : {"--context", "--stride", "--limit"}) {
    if (app.count(flag) > 0 && app.get_option(flag)->as<int64_t>() < 1) {
      fail_usage(flag, " is ", app.get_option(flag)->as<std::string>(), "; at least 1 is needed.");
    }
  }
}

// The share of the text that the run held out for validation; the default if the model is no run.
double holdout_of_training(const std::filesystem::path& model_file) {
  const auto config = run_config(language_train_form(), model_file);
  return config ? config->holdout : LanguageTrainConfig().holdout;
}

std::optional<json> run_loss(LoadedLanguage& language, EvalCommand& command,
                             ProgressLine& progress) {
  LanguageLossOptions& options = command.loss;
  options.stop = stop_flag();
  options.batch = command.batch;
  if (command.whole_text) options.context = LanguageLossOptions::kWholeText;
  const bool official = options.protocol == "official";
  options.progress = [&](int64_t done, int64_t total) {
    progress.update(done, total, official ? "batches scored" : "tokens scored");
  };
  const LanguageText text = load_language_text(
      {command.data.path, command.split, command.holdout, official}, language.info);
  const auto result = language_loss(*language.model, *text.tokens, text.bytes, options);
  if (!result) return std::nullopt;
  json report = to_json(*result);
  report["protocol"] = options.protocol;
  report["split"] = text.split.empty() ? json() : json(text.split);
  if (command.whole_text) report["context"] = "whole text";
  return report;
}

std::optional<json> run_lambada(LoadedLanguage& language, const EvalCommand& command,
                                ProgressLine& progress) {
  LambadaOptions options;
  options.stop = stop_flag();
  if (command.batch > 0) options.batch = command.batch;
  options.limit = command.limit;
  options.progress = [&](int64_t done, int64_t total) {
    progress.update(done, total, "passages scored");
  };
  const auto result = evaluate_lambada(language, command.data.path, options);
  return result ? std::optional(to_json(*result)) : std::nullopt;
}

std::optional<json> run_choice(LoadedLanguage& language, const EvalCommand& command,
                               ProgressLine& progress) {
  LanguageEvalOptions options;
  options.stop = stop_flag();
  options.progress = [&](int64_t done, int64_t total) {
    progress.update(done, total, "questions scored");
  };
  const auto result = evaluate_choices(language, command.data.path, command.limit, options);
  return result ? std::optional(to_json(*result)) : std::nullopt;
}

// Scores data with tokens and targets (token_task.h); returns no report if interrupted.
std::optional<json> run_answers(LoadedLanguage& language, const EvalCommand& command,
                                ProgressLine& progress) {
  const std::string split = command.split.empty() ? "test" : command.split;
  const TokenTaskData data(command.data.path, split);
  AnswerEvalOptions options;
  options.samples = command.samples;
  options.batch = command.batch;
  options.stop = stop_flag();
  options.progress = [&](int64_t done, int64_t total) {
    progress.update(done, total, "samples read");
  };
  const auto scores = evaluate_answers(*language.model, data, options);
  if (!scores) return std::nullopt;
  json report = to_json(*scores);
  for (size_t i = 0; i < scores->size(); ++i) {
    const AnswerScores& one = (*scores)[i];
    const double read = double(one.samples) * double(one.length);
    report["groups"][i]["tokens_per_s"] = one.seconds > 0 ? json(read / one.seconds) : json();
  }
  report["parameters"] = parameter_count(*language.model);
  report["split"] = split;
  return report;
}

std::optional<json> run_task(LoadedLanguage& language, EvalCommand& command,
                             ProgressLine& progress) {
  if (command.task == kAnswers) return run_answers(language, command, progress);
  if (command.task == "loss") return run_loss(language, command, progress);
  if (command.task == "lambada") return run_lambada(language, command, progress);
  return run_choice(language, command, progress);
}

// Prints the number under `key` of the report times `scale`; nothing if the report has no such key.
void print_number(const json& report, const char* key, const char* name, int digits,
                  double scale = 1, const char* unit = "") {
  if (!report.contains(key) || !report[key].is_number()) return;
  std::cout << std::left << std::setw(18) << name << std::right << std::fixed
            << std::setprecision(digits) << plain_nan(scale * report[key].get<double>()) << unit
            << "\n";
}

void print_eval_language(const json& report) {
  print_number(report, "loss", "loss", 4, 1, " nats a token");
  print_number(report, "standard_error", "standard error", 4);
  print_number(report, "perplexity", "perplexity", 3);
  print_number(report, "bits_per_byte", "bits per byte", 4);
  print_number(report, "accuracy", "accuracy", 2, 100, " %");
  print_number(report, "official_accuracy", "official accuracy", 2, 100, " %");
  print_number(report, "last_word_loss", "last word loss", 4, 1, " nats a word");
  print_number(report, "chance", "chance", 2, 100, " %");
  for (const char* key : {"tokens", "passages", "questions"}) {
    if (report.contains(key)) {
      std::cout << std::left << std::setw(18) << key << human_number(report[key].get<int64_t>())
                << "\n";
    }
  }
  print_number(report, "tokens_per_s", "tokens a second", 0);
  if (report.value("shortened", int64_t{0}) > 0) {
    std::cout << report["shortened"] << " did not fit the model's context and were read without "
              << "their beginning\n";
  }
  for (const char* key : {"split", "precision"}) {
    if (!report.contains(key) || !report[key].is_string()) continue;
    std::cout << std::left << std::setw(18) << key << report[key].get<std::string>() << "\n";
  }
  std::cout << std::left << std::setw(18) << "model" << report["checkpoint"].get<std::string>()
            << "\n";
}

void print_answers(const json& report) {
  std::cout << std::left << std::setw(16) << "group" << std::right << std::setw(9) << "length"
            << std::setw(12) << "accuracy %" << std::setw(9) << "exact %" << std::setw(13)
            << "state bytes" << std::setw(12) << "tokens/s"
            << "\n";
  for (const json& one : report["groups"]) {
    std::cout << std::left << std::setw(16) << escaped(one["group"].get<std::string>())
              << std::right << std::setw(9) << one["length"].get<int64_t>();
    const double rate = one["tokens_per_s"].is_null() ? 0 : one["tokens_per_s"].get<double>();
    std::cout << format_text("%12.2f%9.2f", 100 * one["accuracy"].get<double>(),
                             100 * one["exact"].get<double>())
              << std::setw(13) << human_number(one["state_bytes"].get<int64_t>())
              << format_text("%12.0f", rate) << "\n";
  }
  std::cout << std::fixed << std::setprecision(2) << "accuracy "
            << 100 * report["accuracy"].get<double>() << " %, whole samples "
            << 100 * report["exact"].get<double>() << " % (" << report["split"].get<std::string>()
            << "), " << human_number(report["parameters"].get<int64_t>()) << " parameters\n"
            << "model    " << report["checkpoint"].get<std::string>() << "\n";
}

}  // namespace

void require_data(const CLI::App& app) {
  if (app.count("--data") > 0) return;
  fail_usage("--data is needed; it names what the model is scored on.");
}

std::vector<CLI::Option*> add_language_eval_options(CLI::App& app, EvalCommand& command) {
  const std::string group = "Language models";
  LanguageLossOptions& loss = command.loss;
  std::vector<CLI::Option*> options = {
      app.add_option("--task", command.task, "loss, lambada or choice"),
      app.add_option("--protocol", loss.protocol,
                     "usual (whole text, windows every stride) or official (random crops)"),
      app.add_option("--context", loss.context, "Tokens a window holds (default: the block)"),
      app.add_option("--stride", loss.stride, "Tokens between windows (default: half a context)"),
      app.add_flag("--whole-text", command.whole_text,
                   "Predict each token from all before it (models without a limit of context)"),
      add_value(app, "--batches", loss.batches, "Of the official protocol"),
      add_value(app, "--seed", loss.seed, "Of the official protocol's crops"),
      add_value(app, "--holdout", command.holdout,
                "Last share of a text without a validation file that is its validation split"),
      app.add_option("--limit", command.limit, "The first passages or questions alone"),
      app.add_option("--samples", command.samples,
                     "The first ones of every group alone, where --data is a task of tokens"),
      add_tokenizer_option(app, command.tokenizer)};
  for (CLI::Option* option : options) option->group(group);
  return options;
}

void run_language_eval(const CLI::App& app, EvalCommand& command) {
  require_data(app);
  const bool answers = is_token_task(command.data.path);
  if (answers) {
    if (app.count("--task") > 0) fail_usage("--task does not go with ", named(kAnswers), ".");
    command.task = kAnswers;
  }
  check_flags(app, command);
  set_threads(command.run.threads);
  LoadedLanguage language =
      load_language_file(command.checkpoint, command.ema ? Weights::kEma : Weights::kRaw);
  if (command.task == "loss" && app.count("--holdout") == 0) {
    command.holdout = holdout_of_training(language.file);
  }
  if (!answers) {
    choose_tokenizer(
        {.name = command.tokenizer, .data = command.data.path, .holdout = command.holdout},
        language);
  }
  const torch::Device device = device_from_name(command.run.device);
  if (!command.precision.empty()) {
    language.precision = precision_from_name(command.precision, language_precisions(device));
  }
  place_language(language.model, language.precision, device);
  const PrecisionScope scope(scope_precision(language.precision, device), device);
  ProgressLine progress(command.quiet || command.run.json);
  std::optional<json> report = run_task(language, command, progress);
  progress.finish();
  if (!report) return say_interrupted();
  if (!answers) (*report)["task"] = command.task;
  (*report)["checkpoint"] = language.file.string();
  (*report)["model"] = language.info.config.name;
  (*report)["precision"] = language.precision;
  (*report)["data"] = command.data.path;
  if (command.run.json) return print_json(*report);
  answers ? print_answers(*report) : print_eval_language(*report);
}

}  // namespace tost
