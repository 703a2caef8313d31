// Classes in the order of their probabilities: what `tost predict` answers, whatever it reads.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/nn/precision.h"
#include "tost/torch.h"

namespace tost {

struct RankedClass {
  int64_t label = 0;
  std::string name;
  double probability = 0;
};

struct Prediction {
  std::string path;
  std::vector<RankedClass> top;  // most likely first; equal ones in the order of labels
};

struct PredictOptions {
  int64_t top_k = 5;  // at least 1; more than there are classes gives them all
  int64_t batch_size = 16;
  Precision precision = Precision::kFp32;  // or bf16, or int8 with `engine`
  bool engine = true;                      // where it supports the model
};

// The top_k classes of probabilities [K], most likely first. Throws a usage Error for top_k < 1.
std::vector<RankedClass> rank_classes(const torch::Tensor& probabilities,
                                      const std::vector<std::string>& classes, int64_t top_k);

// {"label", "class", "probability"}; a probability that is not a number is null.
nlohmann::json to_json(const RankedClass& ranked);

// {"class", `items`: how many, "top1"} for each class. `confusion`: [class, predicted], counts.
nlohmann::json class_rows(const torch::Tensor& confusion, const std::vector<std::string>& classes,
                          const char* items);

}  // namespace tost
