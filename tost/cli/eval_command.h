// The flags of tost eval, and what both programs do with language models and pictures.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tost/cli/model_commands.h"
#include "tost/cli/options.h"
#include "tost/cli/terminal.h"
#include "tost/engine/language_scores.h"
#include "tost/engine/picture_scores.h"

namespace tost {

struct EvalCommand {
  RunOptions run;
  ModelChoice model;
  ScoreOptions score;  // split and batch of all kinds, the rest only of classifiers
  bool quiet = false;
  std::string data_format = "auto";  // only of classifiers
  // Only language.
  std::string task = "loss";  // loss, lambada or choice
  int64_t samples = 0;        // of every group of a task of tokens; 0: all
  LanguageLossOptions loss;
  bool whole_text = false;
  std::optional<int64_t> limit;
};

// Adds the command, with the flags of all kinds of model.
CLI::App* add_eval_command(CLI::App& app, EvalCommand& command);

// Throws a usage Error for an empty batch, and unless --data was given.
void check_eval(const CLI::App& app, const EvalCommand& command);

// Adds the flags of language models, and returns a list of the added flags.
std::vector<CLI::Option*> add_language_eval_options(CLI::App& app, EvalCommand& command);

// Adds the flags of image models, and returns a list of the added flags.
std::vector<CLI::Option*> add_picture_eval_options(CLI::App& app, EvalCommand& command);

// Scores a classifier by `score`, which returns null if stopped, and prints the report.
void run_class_eval(const CLI::App& app, EvalCommand& command,
                    const std::function<nlohmann::json(const ScoreOptions& options)>& score);

// Scores a model on a task of tokens; returns no report if interrupted.
using ScoreAnswers = std::optional<nlohmann::json> (*)(TextModel& model, const EvalCommand& command,
                                                       const LanguageEvalOptions& watched);

// Scores the model and prints the report. `app` shows which flags are set.
void run_language_eval(const CLI::App& app, EvalCommand& command, OpenText open,
                       ScoreAnswers answers);
void run_language_eval(const CLI::App& app, EvalCommand& command);  // of the full program

}  // namespace tost
