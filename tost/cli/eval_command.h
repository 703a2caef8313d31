// The flags of tost eval, and one function for each kind of model.
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
#include "tost/kinds/language/scores.h"

namespace tost {

struct EvalCommand {
  RunOptions run;
  std::string checkpoint;
  DataSpec data;
  std::string split;      // empty: the kind's default
  int64_t batch = 0;      // 0: the kind's default
  std::string precision;  // empty: the file's
  bool ema = false;
  bool quiet = false;
  // Pictures and sequences.
  ScoreRequest score;
  nlohmann::json data_values = nlohmann::json::object();  // settings of the data that were given
  // Only language.
  std::string task = "loss";  // loss, lambada or choice
  int64_t samples = 0;        // of every group of a task of tokens; 0: all
  LanguageLossOptions loss;
  bool whole_text = false;
  std::optional<int64_t> limit;
  double holdout = 0.1;
  std::string tokenizer;  // empty: the model's
};

// Throws a usage Error unless --data was given.
void require_data(const CLI::App& app);

// Adds the flags of language models, and returns a list of the added flags.
std::vector<CLI::Option*> add_language_eval_options(CLI::App& app, EvalCommand& command);

// Scores the model and prints the report. `app` shows which flags are set.
void run_language_eval(const CLI::App& app, EvalCommand& command);

}  // namespace tost
