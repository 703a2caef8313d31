// tost serve, for the full program and the small one, which open models in their own ways.
#pragma once

#include <functional>

#include "tost/cli/generate.h"
#include "tost/engine/vision_file.h"
#include "tost/serve/app.h"

namespace tost {

// Opens the model into its place among those served.
using OpenServed = std::function<void(ServedModel&, const ServiceLimits&, Metrics&)>;
// Finds out whether this program serves the model, and how. Starts nothing, so that the small
// program may still leave all to the full one.
using FindServed = OpenServed (*)(const ModelChoice& choice);

// An image classifier to be served. `logits` maps images [count, channels, side, side] to logits
// [count, classes]; `explain` is PictureModel::explain() and may be empty.
struct ServedPictures {
  ModelInfo info;
  Precision precision = Precision::kFp32;
  std::function<void(const float* images, int64_t count, float* logits)> logits;
  std::function<std::function<nlohmann::json()>(const Image& picture)> explain = {};
};
void serve_pictures(ServedPictures pictures, ServedModel& model, const ServiceLimits& limits);

void add_serve_command(CLI::App& app, FindServed find);

}  // namespace tost
