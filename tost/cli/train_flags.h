// The settings of all kinds of run as flags of `tost train`.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace tost {

// Flags write into `values`, which outlives the command.
void add_train_fields(CLI::App& command, nlohmann::json& values);

}  // namespace tost
