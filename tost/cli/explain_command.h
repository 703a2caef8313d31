// What tost explain was told, and what it does with each kind of model.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/base/error.h"
#include "tost/cli/options.h"
#include "tost/data/dataset.h"

namespace tost {

struct ExplainCommand {
  RunOptions run;
  std::string checkpoint;
  std::string out = "report";  // its folder
  std::string title;           // empty: from the model's name
  bool overwrite = false;
  bool write = true;  // the folder: --json alone prints the numbers only
  bool ema = false;
  bool quiet = false;
  DataSpec data = {.path = ""};  // path "": what the run was trained on
  std::string split;             // empty: validation, else test
  int64_t samples = 256;         // pictures or windows of each split for every statistic
  std::vector<int64_t> layers;   // from 1; empty: first, middle and last
  std::vector<int64_t> heads;    // from 1; empty: all
  bool bound = false;
  // Pictures alone.
  std::vector<std::string> images;  // none: a few of the data's
  // Language alone; there `images` holds the file of the passage.
  std::string text;
  int64_t max_tokens = 400;
  std::string tokenizer;  // empty: the model's own
};

// Opens the data with `open` where they are `known`: given, or named by the run. Returns why there
// are none, a sentence without its capital; "" where they are open. Data that was not asked for may
// be gone.
inline std::string open_known_data(const ExplainCommand& command, bool known,
                                   const std::function<void()>& open) {
  if (!known) {
    return "the model file is not in a run folder that names its data; give it with --data.";
  }
  try {
    open();
  } catch (const Error& error) {
    if (!command.data.path.empty() || !command.split.empty()) throw;
    return cat("the run's data cannot be opened any more (", error.what(),
               ") Give it with --data.");
  }
  return "";
}

// Adds the flags that go with language models; they are returned for the check of the kind.
std::vector<CLI::Option*> add_text_explain_options(CLI::App& app, ExplainCommand& command);

// Writes the report of these numbers where one is wanted, and prints them for --json.
void finish_report(nlohmann::json numbers, const ExplainCommand& command);

// Each explains a model of its kind, writes the report and prints where it is. `app` tells which
// flags were given.
void run_vision_explain(const CLI::App& app, ExplainCommand& command);
void run_text_explain(const CLI::App& app, ExplainCommand& command);

}  // namespace tost
