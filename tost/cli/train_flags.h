// The settings of all kinds of run as flags of `tost train`.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace tost {

// Flags write into `values`, which outlives the command. Returns them by the keys of the settings.
std::map<std::string, CLI::Option*> add_train_fields(CLI::App& command, nlohmann::json& values);

}  // namespace tost
