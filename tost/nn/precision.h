// Precisions of a model's computation: their table, names and scopes.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tost/kernels/products/few_rows.h"
#include "tost/nn/device_autocast.h"
#include "tost/ops/product_support.h"
#include "tost/torch.h"

namespace tost {

// The precisions, in the order of kPrecisions.
enum class Precision : uint8_t { kFp32, kBf16, kInt8, kInt4 };

// Properties of a precision.
struct PrecisionFacts {
  const char* name;
  int64_t bits;                           // of a weight
  kernels::WeightType maps, tables;       // linear maps and token tables, in files and in decoding
  std::optional<Packing> packing;         // of the engines of classifiers; none: they lack it
  std::optional<at::ScalarType> modules;  // that modules multiply in; none: only engines have it
  double logit_error;  // largest on random weights, as a share of the largest logit
};

inline constexpr PrecisionFacts kPrecisions[] = {
    {"fp32", 32, kernels::WeightType::kFloat32, kernels::WeightType::kFloat32, Packing::kFloat32,
     at::kFloat, 1e-4},
    {"bf16", 16, kernels::WeightType::kBfloat16, kernels::WeightType::kBfloat16, Packing::kBfloat16,
     at::kBFloat16, 5e-2},
    {"int8", 8, kernels::WeightType::kInt8, kernels::WeightType::kInt8, Packing::kInt8,
     std::nullopt, 0.12},
    {"int4", 4, kernels::WeightType::kInt4, kernels::WeightType::kInt8, std::nullopt, std::nullopt,
     0.5},
};

constexpr const PrecisionFacts& facts_of(Precision precision) {
  return kPrecisions[size_t(precision)];
}
constexpr const char* name_of(Precision precision) {
  return facts_of(precision).name;
}

using Precisions = std::vector<Precision>;
Precisions all_precisions();
Precisions stored_precisions();                 // that model files may hold instead of fp32
Precisions integer_precisions();                // only of engines
Precisions classifier_precisions(bool engine);  // by an engine, or by the modules

std::vector<std::string> names_of(const Precisions& precisions);
// Lists precisions as "fp32, bf16, int8, int4"; `last` separates the last two.
std::string list_of(const Precisions& precisions, const char* last = ", ");
// None for other texts.
std::optional<Precision> precision_named(const std::string& name,
                                         const Precisions& among = all_precisions());
// The precision of this name. Throws a usage Error that lists `known` for another text. Whether a
// model can compute in it is checked later.
Precision precision_from_name(const std::string& name, const Precisions& known = all_precisions());

// The packing of products in the classifiers' engines. Throws a usage Error for other precisions.
Packing packing_of(Precision precision);

// In messages, tables and JSON a precision is its name.
inline std::ostream& operator<<(std::ostream& out, Precision precision) {
  return out << name_of(precision);
}
template <class Json>
void to_json(Json& json, const Precision& precision) {
  json = name_of(precision);
}
template <class Json>
void from_json(const Json& json, Precision& precision) {
  precision = precision_from_name(json.template get<std::string>());
}

// Sets the precision of matrix products in a scope, without changing weights: bf16 turns autocast
// to bfloat16 on for that device and this thread, fp32 does nothing. Anything else is a usage
// Error.
class PrecisionScope {
 public:
  explicit PrecisionScope(Precision precision, torch::Device device = torch::kCPU);

 private:
  DeviceAutocast scope_;
};

// Changes the model's weights: bf16 rounds every parameter to bfloat16, which halves what decoding
// reads, fp32 does nothing. Anything else is a usage Error.
void use_precision(torch::nn::Module& model, Precision precision);

}  // namespace tost
