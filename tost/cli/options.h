// Options that several commands share, and the checks of their values.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tost/data/dataset.h"

namespace tost {

// Adds "Example:\n ..." at the end of a command's help.
void add_example(CLI::App& command, const std::string& lines);

// Adds an option whose default value --help shows.
template <class Value>
CLI::Option* add_value(CLI::App& command, const char* flag, Value& value, const std::string& help) {
  return command.add_option(flag, value, help)->capture_default_str();
}

struct RunOptions {
  bool json = false;
  int64_t threads = 0;
  std::string device = "cpu";
};
// Adds --device, for commands that run models.
void add_device_option(CLI::App& command, RunOptions& options);
void add_run_options(CLI::App& command, RunOptions& options);
// Adds the argument that names a model: a path, or the name of a shipped model, for which `value`
// gets the path of its file.
void add_model_argument(CLI::App& command, const char* name, std::string& value);
// Lets an option accept the names of shipped models in place of their files.
void accept_shipped_names(CLI::Option& option);
// Adds --tokenizer, for language models whose file holds none.
CLI::Option* add_tokenizer_option(CLI::App& command, std::string& name);

// Quotes a text for a shell if it contains special characters.
std::string quoted(const std::string& text);

// Adds --data, which may be `required`, and the flags of the generated set.
void add_data_options(CLI::App& command, std::string& path, std::string& format, bool required);
inline void add_data_options(CLI::App& command, DataSpec& spec, bool required) {
  add_data_options(command, spec.path, spec.format, required);
}

// Check, before long work, the file that a flag names for results; an empty path passes. They throw
// usage Errors that name the flag if the path is a folder, or its folder does not exist.
void check_output_file(const char* flag, const std::string& path);
// Also refuses an unknown file name extension.
void check_output_ending(const char* flag, const std::string& path,
                         const std::vector<std::string>& endings);

// Adds checks to the flags and arguments of `app` and its subcommands by their type, unless a table
// of settings checks them. An integer is at least 0, in decimal digits; a number is finite; no
// value is empty, as an unset shell variable is.
void check_flag_values(CLI::App& app);

// A check of an option: says why the text is no integer from 1 on; empty if it is one.
std::string at_least_one(const std::string& text);

// Makes every flag that names data warn on stderr if its value names a generated set, which is
// used, and also a folder of the working directory.
void note_data_names(CLI::App& app);

}  // namespace tost
