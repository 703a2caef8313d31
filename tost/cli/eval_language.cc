// tost eval for language models.
#include <filesystem>
#include <iomanip>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/text.h"
#include "tost/cli/eval_command.h"
#include "tost/cli/program.h"
#include "tost/engine/language_tasks.h"
#include "tost/engine/language_text.h"
#include "tost/engine/run_layout.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"
#include "tost/io/text_layout.h"

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
  json config;
  if (const auto file = run_config_file(model_file)) {
    config = parse_json(read_file(*file, 1 << 20), cat("'", file->string(), "'"));
  }
  const auto found = config.find("holdout");
  const bool known = found != config.end() && found->is_number();
  return known ? found->get<double>() : ModelChoice().holdout;
}

template <class Result>
std::optional<json> report_of(const std::optional<Result>& result) {
  return result ? std::optional(to_json(*result)) : std::nullopt;
}

std::optional<json> run_loss(OpenedText& language, const EvalCommand& command,
                             LanguageLossOptions options) {
  options.batch = command.score.batch;
  if (command.whole_text) options.context = LanguageLossOptions::kWholeText;
  const LanguageText text =
      load_language_text({command.model.data, command.score.split, command.model.holdout,
                          options.protocol == "official"},
                         language.info);
  auto report = report_of(language_loss(*language.model, *text.tokens, text.bytes, options));
  if (!report) return report;
  (*report)["protocol"] = options.protocol;
  (*report)["split"] = text.split.empty() ? json() : json(text.split);
  if (command.whole_text) (*report)["context"] = "whole text";
  return report;
}

// Scores the model by the task of the command; returns no report if interrupted.
std::optional<json> run_task(OpenedText& language, const EvalCommand& command,
                             ScoreAnswers score_answers, ProgressLine& progress) {
  const auto watched = [&](const char* what) -> LanguageEvalOptions {
    return {stop_flag(),
            [&progress, what](int64_t done, int64_t total) { progress.update(done, total, what); }};
  };
  if (command.task == kAnswers) {
    return score_answers(*language.model, command, watched("samples read"));
  }
  if (command.task == "loss") {
    LanguageLossOptions options = command.loss;
    const bool official = options.protocol == "official";
    static_cast<LanguageEvalOptions&>(options) =
        watched(official ? "batches scored" : "tokens scored");
    return run_loss(language, command, options);
  }
  if (command.task == "choice") {
    return report_of(evaluate_choices(*language.model, language.info, command.model.data,
                                      command.limit, watched("questions scored")));
  }
  LambadaOptions options{watched("passages scored")};
  if (command.score.batch > 0) options.batch = command.score.batch;
  options.limit = command.limit;
  return report_of(evaluate_lambada(*language.model, language.info, command.model.data, options));
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

CLI::App* add_eval_command(CLI::App& app, EvalCommand& command) {
  CLI::App* eval = app.add_subcommand("eval", "Score a trained model on a data set");
  add_model_argument(*eval, "checkpoint", command.model.path);
  eval->add_option("--data", command.model.data,
                   "Folder of the data, a text or .jsonl file, a table of sequences, or generated: "
                   "shapes, listops");
  eval->add_option("--split", command.score.split,
                   "train, validation or test; of a single text also whole (default: test, for "
                   "text without one validation, of one file whole unless it is the run's own)");
  eval->add_option("--batch", command.score.batch,
                   "Images (default 100), sequences (default 32), windows or passages at a time");
  eval->add_option("--precision", command.model.precision,
                   "fp32 or bf16, of image models int8, of language models " +
                       list_of(integer_precisions(), " and ") + " (default: the file's)");
  eval->add_flag("--ema", command.model.ema, "Use the averaged weights");
  eval->add_flag("--quiet", command.quiet, "No progress");
  add_device_option(*eval, command.run);
  add_run_options(*eval, command.run);
  add_example(*eval,
              "  tost eval run --data fashion-mnist\n"
              "  tost eval run --data fashion-mnist --corrupt noise --strength 3\n"
              "  tost eval run --data wikitext-2 --protocol official\n"
              "  tost eval run --data lambada --task lambada\n"
              "  tost eval run --data listops --min-tokens 1000 --max-tokens 3000");
  return eval;
}

void check_eval(const CLI::App& app, const EvalCommand& command) {
  if (app.count("--batch") > 0 && command.score.batch < 1) {
    fail_usage("--batch is ", command.score.batch, "; at least 1 is needed.");
  }
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
      add_value(app, "--holdout", command.model.holdout,
                "Last share of a text without a validation file that is its validation split"),
      app.add_option("--limit", command.limit, "The first passages or questions alone"),
      app.add_option("--samples", command.samples,
                     "The first ones of every group alone, where --data is a task of tokens"),
      add_tokenizer_option(app, command.model.tokenizer)};
  for (CLI::Option* option : options) option->group(group);
  return options;
}

void run_language_eval(const CLI::App& app, EvalCommand& command, OpenText open,
                       ScoreAnswers score_answers) {
  check_eval(app, command);
  const bool answers = is_token_task(command.model.data);
  if (answers) {
    if (app.count("--task") > 0) fail_usage("--task does not go with ", named(kAnswers), ".");
    command.task = kAnswers;
  }
  check_flags(app, command);
  set_threads(command.run.threads);
  if (command.task == "loss" && app.count("--holdout") == 0) {
    command.model.holdout =
        holdout_of_training(find_model_file(command.model.path, command.model.weights()));
  }
  command.model.device = command.run.device;
  command.model.windows = true;
  OpenedText language = open(command.model);
  ProgressLine progress(command.quiet || command.run.json);
  std::optional<json> report = run_task(language, command, score_answers, progress);
  progress.finish();
  if (!report) return say_interrupted();
  if (!answers) (*report)["task"] = command.task;
  (*report)["checkpoint"] = language.file;
  (*report)["model"] = language.info.config.name;
  (*report)["precision"] = language.precision;
  (*report)["data"] = command.model.data;
  if (command.run.json) return print_json(*report);
  answers ? print_answers(*report) : print_eval_language(*report);
}

}  // namespace tost
