// A trained classifier of sequences in one safetensors file: weights, architecture, coding,
// classes.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tost/bench/bench_model.h"
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

using LoadedSequence = Loaded<SequenceClassifier, SequenceInfo>;

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

// For `tost bench model`, with the products of SequenceClassifier::forward().
std::unique_ptr<BenchModel> open_bench_sequence(const BenchModelSource& source, bool file);
std::vector<Product> sequence_products(const SequenceClassifier& model, int64_t batch,
                                       int64_t tokens);

}  // namespace tost
