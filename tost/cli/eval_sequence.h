// The part of tost eval that concerns models of sequences.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <vector>

#include "tost/cli/eval_language.h"

namespace tost {

// Adds the settings of the data, by which it is generated or cut, as flags that write into
// `values`, which outlives the command. They are returned for the check of the kind.
std::vector<CLI::Option*> add_sequence_eval_options(CLI::App& app, nlohmann::json& values);

// Scores the model and prints the report. Settings of the data that were not given are those of the
// run that `command.checkpoint` names, where it is one.
void run_sequence_eval(const CLI::App& app, const EvalCommand& command,
                       const nlohmann::json& values);

}  // namespace tost
