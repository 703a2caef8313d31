// The part of tost eval that asks language models for what they have read.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tost/cli/terminal.h"
#include "tost/kinds/language/file.h"
#include "tost/kinds/language/recall_eval.h"

namespace tost {

// Flags of the tasks mqar, needle and copying; what is not given is that of the model's training,
// where that was of the same task.
struct RecallFlags {
  std::string lengths, pairs, depths, plot;
  RecallSpec spec;
  RecallEvalOptions options;
};

bool is_recall_task(const std::string& task);

// A flag and the tasks it goes with.
struct RecallFlag {
  CLI::Option* option;
  std::vector<std::string> tasks;
};
std::vector<RecallFlag> add_recall_eval_options(CLI::App& app, RecallFlags& flags);

// The report, with the heat map drawn where --plot asks for it; nothing when interrupted. `app`
// tells which flags were given.
std::optional<nlohmann::json> run_recall(const CLI::App& app, LoadedLanguage& language,
                                         const std::string& task, RecallFlags flags,
                                         ProgressLine& progress);

void print_recall(const nlohmann::json& report);

}  // namespace tost
