// tost predict, for the full program and the small one, which open models in their own ways.
#pragma once

#include "tost/cli/options.h"
#include "tost/engine/predict.h"

namespace tost {

using Predict = PredictReport (*)(const PredictRequest& request, const KindFlags& flags);

void add_predict_command(CLI::App& app, Predict predict);

}  // namespace tost
