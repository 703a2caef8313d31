// Model files with weights in fewer bits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tost/nn/precision.h"
#include "tost/store/weights_file.h"

namespace tost {

struct QuantizeResult {
  std::string kind;                 // vision, language or sequence
  Precision precision{}, before{};  // of the file written, and of the one read
  int64_t tensors = 0, rounded = 0;
  int64_t bytes_before = 0, bytes_after = 0;  // of all weights in float32, of the file written
  double largest_error = 0, mean_error = 0;   // as in StoredWeights
};

// Those usage Errors of quantize_model() alone.
void check_quantize_output(const std::filesystem::path& out, Precision precision);

// Writes the model that `in` means (as for load_model_file, any layout that can be read) as a model
// file of this program with its weights in fewer bits (quantized_file.h). Atomic and
// durable. Throws a usage Error for a precision that files do not store and an output that exists
// or is no .safetensors file, before anything is read; data Errors for what cannot be read or
// rounded.
QuantizeResult quantize_model(const std::filesystem::path& in, const std::filesystem::path& out,
                              Precision precision, Weights weights = Weights::kRaw);

nlohmann::json to_json(const QuantizeResult& result);

}  // namespace tost
