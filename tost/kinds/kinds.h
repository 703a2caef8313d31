// The table of kinds of model. A row is all that a new kind needs to reach the training loop,
// conversion, quantisation, benchmarks, the command line and --help.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/kinds/kind.h"

namespace tost {

const std::vector<Kind>& kinds();

// Of a name that model_kind() gives.
const Kind& kind_named(const std::string& name);

// Those of all kinds, in order.
const std::vector<RunKind>& run_kinds();
const RunKind& run_kind_named(const std::string& name);

// What lies at this path is data for runs of this kind; null where nothing there tells.
const RunKind* kind_of_data(const std::string& path);

// From "recipe" and either the preset "model" or the file "from", which must agree; image models
// where none is given, for which "data" must not be of another kind. `saved`: the configuration of
// a run that is resumed, whose model and recipe then decide; its "from" is not read. Throws a usage
// Error for unknown names (nearest offered), for names of two kinds, for a preset together with a
// file, and for a setting that the kind does not have but another has.
const RunKind& choose_run_kind(const nlohmann::json& values, const nlohmann::json* saved = nullptr);

}  // namespace tost
