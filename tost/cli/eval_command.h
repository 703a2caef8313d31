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

namespace tost {

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
  std::string task = "loss";  // loss, lambada or choice
  int64_t samples = 0;        // of every group of a task of tokens; 0: all
  LanguageLossOptions loss;
  bool whole_text = false;
  std::optional<int64_t> limit;
  double holdout = 0.1;
  std::string tokenizer;  // empty: the model's own
};

// Throws a usage Error unless --data was given.
void require_data(const CLI::App& app);

// {"class", `items`: how many, "top1"} for each class. `confusion`: [class, predicted], counts.
nlohmann::json class_rows(const torch::Tensor& confusion, const std::vector<std::string>& classes,
                          const char* items);
// A line for a row that has a count and "top1", which is null where there is nothing to count.
void print_share(const std::string& name, int64_t count, const nlohmann::json& top1);

// The report on data of a task of tokens (token_task.h); nothing when interrupted.
std::optional<nlohmann::json> run_answers(LoadedLanguage& language, const EvalCommand& command,
                                          ProgressLine& progress);
void print_answers(const nlohmann::json& report);

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
