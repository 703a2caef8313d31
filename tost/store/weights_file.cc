#include "tost/store/weights_file.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/engine/quantized_weight.h"
#include "tost/io/safetensors_index.h"
#include "tost/ops/adamw_step.h"
#include "tost/ops/arrays.h"
#include "tost/store/foreign_source.h"

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

std::string model_kind(const fs::path& path, Weights weights) {
  const fs::path file = find_model_file(path, weights);
  if (is_torch_checkpoint(file)) return foreign_kind(file, weights);
  const auto metadata = read_safetensors_header(file).metadata;
  if (!describes_itself(metadata)) return foreign_kind(file, weights);
  return stored_kind(metadata, cat("'", file.string(), "'"));
}

using kernels::WeightType;
using torch::Tensor;

namespace {

constexpr char kScale[] = ".scale";

bool is_quantized(const Tensor& x) {
  return x.scalar_type() == torch::kChar || x.scalar_type() == torch::kByte;
}

// Sums of errors and values over all rounded weights.
struct Errors {
  double size = 0, error = 0, largest = 0;

  void add(const Tensor& from, const Tensor& to) {
    const auto error_of = (to - from).abs();
    const double top = from.abs().max().item<double>();
    size += from.abs().sum(torch::kDouble).item<double>();
    error += error_of.sum(torch::kDouble).item<double>();
    if (top > 0) largest = std::max(largest, error_of.max().item<double>() / top);
  }
};

QuantizedWeight rounded(const std::string& name, const Tensor& weight, WeightType type) {
  try {
    return quantize(array_of(weight), type);
  } catch (const Error& error) {
    fail_data("Tensor '", name, "' cannot be rounded: ", error.what());
  }
}

// Converts a matrix of integers to floating point; `wanted` has the matrix's shape.
Tensor expanded(const std::string& name, const Tensor& values, const StateDict& file,
                const Tensor& wanted, const std::string& where) {
  const auto found = file.find(name + kScale);
  if (found == file.end()) {
    fail_data(where, " holds '", name, "' in integers but lacks '", name, kScale, "'.");
  }
  if (wanted.dim() != 2 || !wanted.is_floating_point()) {
    fail_data(where, " holds '", name, "' in integers, which only matrices can be.");
  }
  return tensor_of(dequantize(stored_integers(array_of(values), array_of(found->second),
                                              wanted.size(0), wanted.size(1), name, where)));
}

// Replaces every pair of integers and scales of a file by a float32 tensor of the shape that
// `model` has for this name. Throws a data Error about `where` naming the tensor for missing
// scales, wrong types or sizes, values that no weight has, and scales that are negative or not
// finite.
StateDict expand_weights(const StateDict& file, const StateDict& model, const std::string& where) {
  StateDict weights;
  std::set<std::string> used;
  for (const auto& [name, wanted] : model) {
    const auto found = file.find(name);
    if (found == file.end() || !found->second.defined() || !is_quantized(found->second) ||
        !wanted.is_floating_point()) {
      continue;
    }
    weights[name] = expanded(name, found->second, file, wanted, where);
    used.insert(name + kScale);
  }
  for (const auto& [name, tensor] : file) {
    if (weights.count(name) == 0 && used.count(name) == 0) weights[name] = tensor;
  }
  return weights;
}

}  // namespace

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

Precision storable_precision(const std::string& name) {
  const auto known = stored_precisions();
  if (const auto precision = precision_named(name, known)) return *precision;
  fail_usage("Weights cannot be stored in '", name, "'; use ", list_of(known), ".",
             did_you_mean(name, names_of(known)));
}

StoredWeights store_weights(const torch::nn::Module& module, Precision precision) {
  const auto& facts = facts_of(storable_precision(name_of(precision)));
  const torch::NoGradGuard no_grad;
  const auto maps = linear_weight_names(module), tables = token_table_names(module);
  StoredWeights stored;
  Errors errors;
  for (const auto& [name, tensor] : state_dict(module)) {
    const bool table = tables.count(name) != 0;
    if (!table && maps.count(name) == 0) {
      stored.tensors[name] = tensor;
      continue;
    }
    ++stored.rounded;
    const auto weight = tensor.to(torch::kFloat);
    const WeightType type = table ? facts.tables : facts.maps;
    if (type == WeightType::kBfloat16) {
      stored.tensors[name] = weight.to(torch::kBFloat16);
      if (!stored.tensors[name].isfinite().all().item<bool>()) {
        fail_data("The weight '", name, "' has values that are not finite in bfloat16.");
      }
      errors.add(weight, stored.tensors[name].to(torch::kFloat));
      continue;
    }
    const auto q = rounded(name, weight, type);
    stored.tensors[name] = tensor_of(q.values);
    stored.tensors[name + kScale] = tensor_of(q.scales);
    errors.add(weight, tensor_of(dequantize(q)));
  }
  stored.largest_error = errors.largest;
  stored.mean_error = errors.size > 0 ? errors.error / errors.size : 0;
  return stored;
}

}  // namespace tost
