// What a model file says about itself beside its weights, so that the file alone is enough to use
// it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tost/data/preprocess.h"
#include "tost/kinds/vision/config.h"

namespace tost {

struct ModelInfo {
  VisionConfig config;
  std::vector<std::string> classes;  // by label; config.classes of them
  Preprocess preprocess;
};

nlohmann::json to_json(const Preprocess& preprocess);
nlohmann::json to_json(const ModelInfo& info);

// Strict: a data Error naming `where` and the key for unknown or missing keys, wrong types,
// impossible values, and class names or input sides that do not fit the model.
Preprocess preprocess_from_json(const nlohmann::json& json, const std::string& where);
ModelInfo model_info_from_json(const nlohmann::json& json, const std::string& where);

// As string metadata of a safetensors file: "tost.config", "tost.classes", "tost.preprocess" (JSON
// texts) and "format": "pt", which other readers ask for.
std::map<std::string, std::string> to_metadata(const ModelInfo& info);
ModelInfo model_info_from_metadata(const std::map<std::string, std::string>& metadata,
                                   const std::string& where);

}  // namespace tost
