// A report on a language model as JSON: every number of every panel. Layers, heads and places in
// the passage are counted from 1. What is not finite is null. Correlation matrices are those of the
// chosen layers and heads.
#pragma once

#include <nlohmann/json.hpp>

#include "tost/kinds/language/explain_report.h"

namespace tost {

nlohmann::json to_json(const TextReport& report);

// The few numbers a terminal or script asks for first.
nlohmann::json summary_json(const TextReport& report);

}  // namespace tost
