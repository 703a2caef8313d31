// The table of precisions in which a model can compute.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tost/kernels/products/few_rows.h"

namespace tost {

// The types that packed products can multiply; sums are float32, or int32 for int8.
enum class Packing : uint8_t {
  kFloat32,
  kBfloat16,  // rows and weight rounded to bfloat16
  kInt8,      // uint8 rows (quantize_rows) times int8 weights
};

// The values are in the order of kPrecisions.
enum class Precision : uint8_t { kFp32, kBf16, kInt8, kInt4 };

// Properties of a precision.
struct PrecisionFacts {
  const char* name;
  int64_t bits;                      // of a weight
  kernels::WeightType maps, tables;  // linear maps and token tables, in files and in decoding
  std::optional<Packing> packing;    // of the engines of classifiers; none: they lack it
  bool modules;                      // whether modules multiply in it; else only engines have it
  double logit_error;                // largest on random weights, as a share of the largest logit
};

inline constexpr PrecisionFacts kPrecisions[] = {
    {"fp32", 32, kernels::WeightType::kFloat32, kernels::WeightType::kFloat32, Packing::kFloat32,
     true, 1e-4},
    {"bf16", 16, kernels::WeightType::kBfloat16, kernels::WeightType::kBfloat16, Packing::kBfloat16,
     true, 5e-2},
    {"int8", 8, kernels::WeightType::kInt8, kernels::WeightType::kInt8, Packing::kInt8, false,
     0.12},
    {"int4", 4, kernels::WeightType::kInt4, kernels::WeightType::kInt8, std::nullopt, false, 0.5},
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
// "fp32, bf16, int8, int4"; Lists the names of precisions; `last` is the word before the last name.
std::string list_of(const Precisions& precisions, const char* last = ", ");
// None for other texts.
std::optional<Precision> precision_named(const std::string& name,
                                         const Precisions& among = all_precisions());
// Reads the name of a precision; throws a usage Error that lists `known` for an unknown name. Does
// not check that a model supports the precision.
Precision precision_from_name(const std::string& name, const Precisions& known = all_precisions());

// Throws a usage Error for a precision that modules lack.
void check_modules_multiply(Precision precision);
// The precisions of engines of classifiers. Throws a usage Error for another precision.
Packing packing_of(Precision precision);

// Writes a precision by its name, in messages, tables and JSON.
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

}  // namespace tost
