// Options that several commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "tost/data/dataset.h"

namespace tost {

// "Example:\n  ..." below a command's help.
void add_example(CLI::App& command, const std::string& lines);

// An option whose default --help shows.
template <class Value>
CLI::Option* add_value(CLI::App& command, const char* flag, Value& value, const std::string& help) {
  return command.add_option(flag, value, help)->capture_default_str();
}

struct RunOptions {
  bool json = false;
  int64_t threads = 0;
  std::string device = "cpu";
};
// --device, for commands that run models.
void add_device_option(CLI::App& command, RunOptions& options);
void add_run_options(CLI::App& command, RunOptions& options);
// The model that the command is about: a path, or the name of a shipped model, of which `value`
// then gets the file.
void add_model_argument(CLI::App& command, const char* name, std::string& value);
// Lets the names of shipped models stand for their files in the values of this option too.
void accept_shipped_names(CLI::Option& option);
// --tokenizer, of language models whose file holds none.
CLI::Option* add_tokenizer_option(CLI::App& command, std::string& name);

// For a shell: in single quotes where it holds anything but plain characters.
std::string quoted(const std::string& text);

// --data and the settings of the generated set. `required` makes --data so.
void add_data_options(CLI::App& command, DataSpec& spec, bool required);

}  // namespace tost
