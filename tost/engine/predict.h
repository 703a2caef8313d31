// What is asked of a model that labels pictures or texts, and its answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/engine/model_files.h"
#include "tost/engine/precision.h"

namespace tost {

// The settings that all uses of a model share.
struct ModelRequest {
  std::string file;  // as for find_model_file()
  Weights weights = Weights::kRaw;
  std::string precision;  // empty: the file's
  std::string device = "cpu";
  bool engine = true;
};

struct PredictRequest : ModelRequest {
  std::vector<std::string> pictures, texts, text_files;
  std::string second;  // text of a pair
  int64_t batch = 16, top = 5;
};

struct RankedClass {
  int64_t label = 0;
  std::string name;
  double probability = 0;
};

struct Prediction {
  std::string path;
  std::vector<RankedClass> top;  // most likely first; equal ones in the order of labels
};

struct PredictReport {
  std::filesystem::path file;
  std::vector<Prediction> predictions;
};

// The probabilities of logits [count], count >= 1.
std::vector<double> softmax(const float* logits, int64_t count);

// Whether a number ranks before another: NaN before all, then the larger one.
bool ranks_before(double a, double b);

// The top_k classes of probabilities, one a class, most likely first, NaN before all. Throws a
// usage Error for top_k < 1.
std::vector<RankedClass> rank_classes(const std::vector<double>& probabilities,
                                      const std::vector<std::string>& classes, int64_t top_k);

// Converts a class to {"label", "class", "probability"}, as nlohmann::json asks for; a probability
// that is not finite is null.
void to_json(nlohmann::json& to, const RankedClass& ranked);

// The precision to compute in: the requested one, else the stored one where it is among `known`.
// Throws as precision_from_name().
Precision chosen_precision(const std::string& requested, Precision stored, const Precisions& known);

}  // namespace tost
