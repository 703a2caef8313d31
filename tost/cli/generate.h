// tost generate, for the full and the small program, which open models in different ways.
#pragma once

#include <memory>
#include <string>

#include "tost/cli/options.h"
#include "tost/engine/language_file.h"

namespace tost {

// The model of a command, and how it is to run.
struct ModelChoice {
  std::string path;
  std::string precision;  // empty: the file's
  std::string tokenizer;  // empty: the model's
  std::string device = "cpu";
  bool ema = false;
  bool explain = true;  // by /v1/explain, where the program can
};

struct OpenedText {
  std::shared_ptr<TextModel> model;
  LanguageInfo info;  // with a tokenizer
  std::string file;
  std::shared_ptr<void> scope;  // of the calls; may be null
};
using OpenText = OpenedText (*)(const ModelChoice& choice);

void add_generate_command(CLI::App& app, OpenText open);

}  // namespace tost
