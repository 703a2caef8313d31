// What tost eval was told, and what it does with each kind of model.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tost/cli/options.h"
#include "tost/cli/terminal.h"
#include "tost/data/corrupt.h"
#include "tost/data/dataset.h"
#include "tost/kinds/language/file.h"
#include "tost/kinds/language/loss.h"
#include "tost/kinds/language/recall_eval.h"

namespace tost {

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
  // Pictures alone.
  int64_t workers = 1;
  bool per_class = false;
  bool engine = true;
  Corruption corruption{"", 3};
  // Sequences alone: settings of the data.
  nlohmann::json sequence_values = nlohmann::json::object();
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

// {"class", `items`: how many, "top1"} for each class. `confusion`: [class, predicted], counts.
nlohmann::json class_rows(const torch::Tensor& confusion, const std::vector<std::string>& classes,
                          const char* items);
// A line for a row that has a count and "top1", which is null where there is nothing to count.
void print_share(const std::string& name, int64_t count, const nlohmann::json& top1);

// Each adds the flags that go with its kind; they are returned for the check of the kind. Flags
// that several kinds share are there already.
std::vector<CLI::Option*> add_vision_eval_options(CLI::App& app, EvalCommand& command);
std::vector<CLI::Option*> add_language_eval_options(CLI::App& app, EvalCommand& command);
std::vector<CLI::Option*> add_sequence_eval_options(CLI::App& app, EvalCommand& command);

// Each scores the model and prints the report. `app` tells which flags were given. Settings of
// sequences that were not given are those of the run that `command.checkpoint` names, where it is
// one.
void run_vision_eval(const CLI::App& app, EvalCommand& command);
void run_language_eval(const CLI::App& app, EvalCommand& command);
void run_sequence_eval(const CLI::App& app, EvalCommand& command);

}  // namespace tost
