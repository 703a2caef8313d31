// tost serve, for the full program and the small one, which open models in their own ways.
#pragma once

#include <functional>

#include "tost/cli/generate.h"
#include "tost/serve/app.h"

namespace tost {

// Opens the model into its place among those served.
using OpenServed = std::function<void(ServedModel&, const ServiceLimits&, Metrics&)>;
// Finds out whether this program serves the model, and how. Starts nothing, so that the small
// program may still leave all to the full one.
using FindServed = OpenServed (*)(const ModelChoice& choice);

void add_serve_command(CLI::App& app, FindServed find);

}  // namespace tost
