// The part of tost eval that concerns language models.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tost/cli/eval_recall.h"
#include "tost/cli/options.h"
#include "tost/data/corrupt.h"
#include "tost/data/dataset.h"
#include "tost/kinds/language/loss.h"

namespace tost {

// What tost eval was told, whatever the kind of model.
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
  // Language alone.
  std::string task = "loss";  // loss, lambada, choice, mqar, needle, copying
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

// Adds the flags that go with language models; they are returned for the check of the kind.
std::vector<CLI::Option*> add_language_eval_options(CLI::App& app, EvalCommand& command);

// Scores the language model and prints the report. `app` tells which flags were given.
void run_language_eval(const CLI::App& app, EvalCommand& command);

}  // namespace tost
