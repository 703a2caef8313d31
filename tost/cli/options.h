// Options that several commands share, and the checks of their values.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

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
// Accepts names of shipped models as values of this option, for their files.
void accept_shipped_names(CLI::Option& option);
// --tokenizer, of language models whose file holds none.
CLI::Option* add_tokenizer_option(CLI::App& command, std::string& name);

// For a shell: in single quotes where it holds anything but plain characters.
std::string quoted(const std::string& text);

// --data and the settings of the generated set. `required` makes --data so.
void add_data_options(CLI::App& command, std::string& path, std::string& format, bool required);
inline void add_data_options(CLI::App& command, DataSpec& spec, bool required) {
  add_data_options(command, spec.path, spec.format, required);
}

// Check a file that a flag names for results, before long work; an empty path is none. They throw
// usage Errors that name the flag: for a folder, and for a file within a folder that does not
// exist.
void check_output_file(const char* flag, const std::string& path);
// The same, and for an unknown file name extension.
void check_output_ending(const char* flag, const std::string& path,
                         const std::vector<std::string>& endings);

// Gives the flags and arguments of `app` and of its subcommands checks by their type, unless a
// table of settings checks them. An integer is written in decimal digits and is at least 0; a
// number is finite; no value is empty, as that of an unset variable is.
void check_flag_values(CLI::App& app);

// The subcommands of a command.
std::vector<CLI::App*> commands_of(CLI::App& app);

// A check of an option: why the text is not an integer from 1 on; empty where it is one.
std::string at_least_one(const std::string& text);

// Makes every flag that names data warn on stderr if its value names a generated set and also a
// folder of the working directory: the set is used.
void note_data_names(CLI::App& app);

}  // namespace tost
