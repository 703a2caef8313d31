// A loaded language model put where it is to run.
#pragma once

#include <memory>
#include <string>

#include "tost/kinds/language/model.h"
#include "tost/kinds/language/step_graph.h"
#include "tost/nn/precision.h"

namespace tost {

// On the CPU the inference engine reads it at that precision; on a GPU it is moved there and its
// modules run at fp32 or bf16, see scope_precision(), single steps as graphs where these are wanted
// (graphs_wanted()) and its state keeps its size: by what is given back, else null. Throws a usage
// Error for other precisions, and for graphs "on" where its state grows.
std::shared_ptr<LanguageGraphs> place_language(const std::shared_ptr<LanguageModel>& model,
                                               const std::string& precision, torch::Device device,
                                               const std::string& graphs = "auto");

// The PrecisionScope its calls stand in: autocast on a GPU, none where the engine sees to it.
std::string scope_precision(const std::string& precision, torch::Device device);

}  // namespace tost
