#include "tost/store/weights_file.h"

#include <cmath>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/engine/metadata.h"
#include "tost/io/safetensors_index.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/adamw_step.h"
#include "tost/store/foreign_source.h"
#include "tost/store/quantized_file.h"

namespace tost {
namespace fs = std::filesystem;

// The sum of squares in float64 is finite if and only if all float32 values are.
void finish_loading(torch::nn::Module& model, const std::string& where) {
  for (const auto& [name, tensor] : state_dict(model)) {
    if (!tensor.is_floating_point()) continue;
    if (std::isfinite(sum_of_squares(tensor.to(torch::kFloat).contiguous()))) continue;
    fail_data(where, " has values in tensor '", name,
              "' that are not finite; take weights from before they went wrong.");
  }
  model.eval();
}

void take_described_weights(torch::nn::Module& model,
                            const std::map<std::string, torch::Tensor>& weights,
                            const std::string& where) {
  const auto wide = expand_weights(weights, state_dict(model), where);
  try {
    load_state_dict(model, wide);
  } catch (const Error& error) {
    fail_data(where, " does not fit its own description: ", error.what());
  }
  finish_loading(model, where);
}

std::string model_kind(const fs::path& path, Weights weights) {
  const fs::path file = find_model_file(path, weights);
  if (is_torch_checkpoint(file)) return foreign_kind(file, weights);
  const auto metadata = read_safetensors_header(file).metadata;
  if (!describes_itself(metadata)) return foreign_kind(file, weights);
  return stored_kind(metadata, cat("'", file.string(), "'"));
}

}  // namespace tost
