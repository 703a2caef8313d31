// The table of kinds of model, and their files with weights in fewer bits. A row is all that a new
// kind needs to reach the training loop, conversion, quantisation, benchmarks, the command line and
// --help.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/kinds/kind.h"
#include "tost/nn/precision.h"
#include "tost/store/weights_file.h"

namespace tost {

const std::vector<Kind>& kinds();

// The kind of a name of model_kind().
const Kind& kind_named(const std::string& name);

// Those of all kinds, in order.
const std::vector<RunKind>& run_kinds();
const RunKind& run_kind_named(const std::string& name);

// The kind of runs that read the data at this path; null where nothing shows it.
const RunKind* kind_of_data(const std::string& path);

// From "recipe" and either the preset "model" or the file "from", which must agree; image models
// where none is given, for which "data" must not be of another kind. `saved`: the configuration of
// a run that is resumed, whose model and recipe then decide; its "from" is not read. Throws a usage
// Error for unknown names (nearest offered), for names of two kinds, for a preset together with a
// file, and for a setting that the kind does not have but another has.
const RunKind& choose_run_kind(const nlohmann::json& values, const nlohmann::json* saved = nullptr);

struct QuantizeResult {
  std::string kind;                 // vision, language or sequence
  Precision precision{}, before{};  // of the file written, and of the one read
  int64_t tensors = 0, rounded = 0;
  int64_t bytes_before = 0, bytes_after = 0;  // of all weights in float32, of the file written
  double largest_error = 0, mean_error = 0;   // as in StoredWeights
};

// Only the usage Errors of quantize_model().
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
