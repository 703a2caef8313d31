// A trained classifier of sequences in one safetensors file: weights, architecture, coding,
// classes.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tost/data/sequence_dataset.h"
#include "tost/kinds/sequence/classifier.h"
#include "tost/nn/precision.h"
#include "tost/store/weights_file.h"

namespace tost {

struct SequenceInfo {
  SequenceConfig config;
  SequenceCoding coding;             // of the data it was trained on
  int64_t cut = 0;                   // sequences are cut to this many tokens; 0: not
  std::vector<std::string> classes;  // by label; config.classes of them
  nlohmann::json training = nlohmann::json::object();  // facts about its training, free in form
};

struct LoadedSequence {
  std::shared_ptr<SequenceClassifier> model;  // float32, in evaluation mode
  SequenceInfo info;
  std::filesystem::path file;              // the file read
  Precision precision = Precision::kFp32;  // that the file holds its weights in
};

nlohmann::json to_json(const SequenceInfo& info);
// Reads a description. Throws a data Error naming `where` for unknown or missing keys, wrong types,
// impossible values, and a coding or class names that do not fit the model.
SequenceInfo sequence_info_from_json(const nlohmann::json& json, const std::string& where);

// Writes a description as metadata of a safetensors file: "tost.kind": "sequence", "tost.config",
// "tost.coding", "tost.classes", "tost.training" (JSON texts) and "format": "pt".
std::map<std::string, std::string> to_metadata(const SequenceInfo& info);

// Loads a model from `path` (see find_model_file). Throws a data Error naming the file, and the
// kind of a model of another kind.
LoadedSequence load_sequence_file(const std::filesystem::path& path,
                                  Weights weights = Weights::kRaw);

// Throws a usage Error if the data have another coding or other classes than the model; names and
// order of classes must be equal. `data` names the data in the message.
void check_sequence_data(const SequenceInfo& info, const SequenceDataset& dataset,
                         const std::string& data);

}  // namespace tost
