// tost serve, for the full program and the small one, which open models in their own ways.
#pragma once

#include <functional>
#include <string>

#include "tost/cli/options.h"
#include "tost/serve/app.h"

namespace tost {

// A model of the command, and how it is to be served.
struct ServeChoice {
  std::string path;
  std::string precision;  // empty: the file's
  std::string tokenizer;  // of a text model whose file holds none
  bool explain = true;    // by /v1/explain, where the program can
};

// Opens the model into its place among those served.
using OpenServed = std::function<void(ServedModel&, const ServiceLimits&, Metrics&)>;
// Finds out whether this program serves the model, and how. Starts nothing, so that the small
// program may still leave all to the full one.
using FindServed = OpenServed (*)(const ServeChoice& choice);

void add_serve_command(CLI::App& app, FindServed find);

}  // namespace tost
