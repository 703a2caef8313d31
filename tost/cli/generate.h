// tost generate, for the full and the small program, which open models in different ways.
#pragma once

#include <memory>
#include <string>

#include "tost/cli/options.h"
#include "tost/engine/language_file.h"

namespace tost {

// The model of the command, and the settings to run it.
struct TextChoice {
  std::string checkpoint;
  std::string precision;  // empty: the file's
  std::string tokenizer;  // empty: the model's
  std::string device;
  bool ema = false;
};

struct OpenedText {
  std::shared_ptr<TextModel> model;
  LanguageInfo info;  // with a tokenizer
  std::string file;
  std::shared_ptr<void> scope;  // of the calls; may be null
};
using OpenText = OpenedText (*)(const TextChoice& choice);

void add_generate_command(CLI::App& app, OpenText open);

}  // namespace tost
