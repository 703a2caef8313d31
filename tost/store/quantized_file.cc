#include "tost/store/quantized_file.h"

#include <algorithm>
#include <set>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/quantized_weight.h"

namespace tost {

using kernels::WeightType;
using torch::Tensor;

namespace {

constexpr char kScale[] = ".scale";

bool is_quantized(const Tensor& x) {
  return x.scalar_type() == torch::kChar || x.scalar_type() == torch::kByte;
}

// Sums of rounding errors over all weights.
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
    return quantize(weight, type);
  } catch (const Error& error) {
    fail_data("Tensor '", name, "' cannot be rounded: ", error.what());
  }
}

[[noreturn]] void fail_sizes(const std::string& where, const std::string& name, const Tensor& found,
                             at::IntArrayRef wanted) {
  fail_data(where, " holds '", name, "' of type ", found.scalar_type(), " and sizes ",
            found.sizes(), " where ", wanted, " are needed.");
}

// Converts integers of the file to the float32 tensor of sizes `wanted` that the model has.
Tensor expanded(const std::string& name, const Tensor& values, const StateDict& file,
                const Tensor& wanted, const std::string& where) {
  const auto found = file.find(name + kScale);
  if (found == file.end()) {
    fail_data(where, " holds '", name, "' in integers but lacks '", name, kScale, "'.");
  }
  const Tensor& scales = found->second;
  if (wanted.dim() != 2 || !wanted.is_floating_point()) {
    fail_data(where, " holds '", name, "' in integers, which only matrices can be.");
  }
  const bool four = values.scalar_type() == torch::kByte;
  const int64_t out = wanted.size(0), in = wanted.size(1);
  const std::vector<int64_t> sizes{out, four ? (in + 1) / 2 : in};
  auto scale_sizes = std::vector<int64_t>{out};
  if (four) scale_sizes.push_back((in + 31) / 32);
  if (values.sizes() != at::IntArrayRef(sizes)) fail_sizes(where, name, values, sizes);
  if (scales.sizes() != at::IntArrayRef(scale_sizes) ||
      scales.scalar_type() != (four ? torch::kBFloat16 : torch::kFloat)) {
    fail_sizes(where, name + kScale, scales, scale_sizes);
  }
  const auto wide = scales.to(torch::kFloat);
  if (!wide.isfinite().logical_and(wide.ge(0)).all().item<bool>()) {
    fail_data(where, " has a scale in '", name, kScale, "' that is negative or not finite.");
  }
  const bool outside =
      four ? values.bitwise_and(15).eq(0).any().item<bool>() || values.lt(16).any().item<bool>()
           : values.eq(-128).any().item<bool>();
  if (outside) {
    fail_data(where, " has a value in '", name, "' outside ", four ? "-7 to 7." : "-127 to 127.");
  }
  auto weight = dequantize(
      {four ? WeightType::kInt4 : WeightType::kInt8, values.contiguous(), scales.contiguous(), in});
  if (!weight.isfinite().all().item<bool>()) {
    fail_data(where, " has a scale in '", name, kScale, "' that is too large for its values.");
  }
  return weight;
}

}  // namespace

Precision stored_precision(const std::map<std::string, std::string>& metadata,
                           const std::string& where) {
  const auto found = metadata.find(kPrecisionKey);
  if (found == metadata.end()) return Precision::kFp32;
  if (const auto precision = precision_named(found->second)) return *precision;
  fail_data(where, " names the precision '", found->second.substr(0, 40), "'; known are ",
            list_of(all_precisions()), ".");
}

Precision storable_precision(const std::string& name) {
  const auto known = stored_precisions();
  if (const auto precision = precision_named(name, known)) return *precision;
  fail_usage("Weights cannot be stored in '", name, "'; use ", list_of(known), ".",
             did_you_mean(name, names_of(known)));
}

Precision chosen_precision(const std::string& requested, Precision stored,
                           const Precisions& known) {
  if (!requested.empty()) return precision_from_name(requested, known);
  return std::find(known.begin(), known.end(), stored) != known.end() ? stored : Precision::kFp32;
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
    stored.tensors[name] = q.values;
    stored.tensors[name + kScale] = q.scales;
    errors.add(weight, dequantize(q));
  }
  stored.largest_error = errors.largest;
  stored.mean_error = errors.size > 0 ? errors.error / errors.size : 0;
  return stored;
}

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

}  // namespace tost
