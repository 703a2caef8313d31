// What tost eval was told, and what it does with each kind of model.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tost/cli/options.h"
#include "tost/cli/terminal.h"
#include "tost/data/dataset.h"
#include "tost/kinds/kind.h"
#include "tost/kinds/language/file.h"
#include "tost/kinds/language/loss.h"
#include "tost/kinds/language/recall_eval.h"

namespace tost {

// The part of tost eval that asks language models for what they have read.

// Flags of the tasks of recall; what is not given is that of the model's training,
// where that was of the same task.
struct RecallFlags {
  std::string lengths, pairs, depths, plot;
  RecallSpec spec;
  RecallEvalOptions options;
};

bool is_recall_task(const std::string& task);

// A flag and the tasks it goes with.
struct RecallFlag {
  CLI::Option* option;
  std::vector<std::string> tasks;
};
std::vector<RecallFlag> add_recall_eval_options(CLI::App& app, RecallFlags& flags);

// The report, with the heat map drawn where --plot asks for it; nothing when interrupted. `app`
// tells which flags were given.
std::optional<nlohmann::json> run_recall(const CLI::App& app, LoadedLanguage& language,
                                         const std::string& task, RecallFlags flags,
                                         ProgressLine& progress);

void print_recall(const nlohmann::json& report);

struct EvalCommand {
  RunOptions run;
  std::string checkpoint;
  DataSpec data;
  std::string split;      // empty: the kind's default
  int64_t batch = 0;      // 0: the kind's default
  std::string precision;  // empty: the file's own
  bool ema = false;
  bool quiet = false;
  // Pictures and sequences.
  ScoreRequest score;
  nlohmann::json data_values = nlohmann::json::object();  // settings of the data that were given
  // Language alone.
  std::string task = "loss";  // loss, lambada, choice, or of recall_tasks()
  LanguageLossOptions loss;
  bool whole_text = false;
  std::optional<int64_t> limit;
  double holdout = 0.1;
  std::string tokenizer;  // empty: the model's own
  RecallFlags recall;
  std::vector<RecallFlag> recall_flags;
};

// Throws a usage Error unless --data was given, which tasks of recall do without.
void require_data(const CLI::App& app);

// Adds the flags of language models, and returns them for the check of the kind.
std::vector<CLI::Option*> add_language_eval_options(CLI::App& app, EvalCommand& command);

// Scores the model and prints the report. `app` tells which flags were given.
void run_language_eval(const CLI::App& app, EvalCommand& command);

}  // namespace tost
