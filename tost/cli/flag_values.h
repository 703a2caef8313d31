// What holds for the values of flags whatever the command.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tost {

// Gives the flags and arguments of `app` and of its subcommands checks by their type, unless a
// table of settings checks them. An integer is written in decimal digits and is at least 0; a
// number is finite; no value is empty, as that of an unset variable is.
void check_flag_values(CLI::App& app);

// A check of an option: why the text is not an integer from 1 on; empty where it is one.
std::string at_least_one(const std::string& text);

// Lets every flag that names data say in a line on stderr that a folder of the working directory is
// not what its name means, where the name is a generated set's.
void note_data_names(CLI::App& app);

}  // namespace tost
