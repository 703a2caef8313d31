// Options that several commands share, and the checks of their values.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tost/io/dataset.h"

namespace tost {

// Adds "Example:\n ..." below a command's help.
void add_example(CLI::App& command, const std::string& lines);

// Adds an option with a default that --help shows.
template <class Value>
CLI::Option* add_value(CLI::App& command, const char* flag, Value& value, const std::string& help) {
  return command.add_option(flag, value, help)->capture_default_str();
}

// The flags of each kind, by Kind::name. A flag may be in several lists; one in none is for all.
using KindFlags = std::map<std::string, std::vector<CLI::Option*>>;

struct RunOptions {
  bool json = false;
  int64_t threads = 0;
  std::string device = "cpu";
};
// Adds --device, for commands that run models.
void add_device_option(CLI::App& command, RunOptions& options);
void add_run_options(CLI::App& command, RunOptions& options);
// Adds the argument for a model, which is a path or the name of a shipped model.
void add_model_argument(CLI::App& command, const char* name, std::string& value);
// Makes the option replace the name of a shipped model by the path of its file.
void accept_shipped_names(CLI::Option& option);
// Adds --tokenizer, for language models whose file holds no tokenizer.
CLI::Option* add_tokenizer_option(CLI::App& command, std::string& name);

// Quotes a text for a shell, with single quotes if it holds special characters.
std::string quoted(const std::string& text);

// Adds --data and the settings of generated sets. `required` makes --data so.
void add_data_options(CLI::App& command, std::string& path, std::string& format, bool required);
inline void add_data_options(CLI::App& command, DataSpec& spec, bool required) {
  add_data_options(command, spec.path, spec.format, required);
}

// Checks the output file of a flag before long work; an empty path means no file. Throws a usage
// Error that names the flag, for a folder and for a file in a missing folder.
void check_output_file(const char* flag, const std::string& path);
// Checks an output file, and throws a usage Error for an unknown file name extension, too.
void check_output_ending(const char* flag, const std::string& path,
                         const std::vector<std::string>& endings);

// Adds checks by type to the flags and arguments of `app` and its subcommands, unless a table of
// settings checks them. An integer must have decimal digits and be at least 0; a number must be
// finite; a value must not be empty, as that of an unset shell variable is.
void check_flag_values(CLI::App& app);

// Returns the subcommands of a command.
std::vector<CLI::App*> commands_of(CLI::App& app);

// Makes flags for data warn on stderr if a value names a generated set and also a folder in the
// working directory.
void note_data_names(CLI::App& app);

}  // namespace tost
