// Results of the scaling measurements as text and JSON; `python -m tost.figures` fits exponents.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tost/study/scaling_bench.h"

namespace tost {

// Time and memory a sequence by length and mixer, then memberships.
std::string scaling_table(const ScalingOptions& options, const ScalingResult& result);

nlohmann::json scaling_json(const ScalingOptions& options, const ScalingResult& result);

}  // namespace tost
