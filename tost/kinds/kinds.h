// The table of kinds of model, and quantisation of their files. Training, conversion, quantisation,
// benchmarks, the command line and --help find all kinds in the table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/kinds/kind.h"
#include "tost/store/weights_file.h"

namespace tost {

const std::vector<Kind>& kinds();

// The kind with a name that model_kind() returns.
const Kind& kind_named(const std::string& name);

// The kinds of runs of all kinds of model, in order.
const std::vector<RunKind>& run_kinds();
const RunKind& run_kind_named(const std::string& name);

// The kind of runs that read the data at this path; null if the data do not show the kind.
const RunKind* kind_of_data(const std::string& path);

// Selects the kind by "recipe", and by the preset "model" or the file "from"; these must agree. The
// default is that of image models, for which "data" must not be of another kind. For a resumed run,
// model and recipe of its configuration `saved` decide. Throws a usage Error for unknown names, for
// names of two kinds, for a preset together with a file, and for a setting of another kind only.
const RunKind& choose_run_kind(const nlohmann::json& values, const nlohmann::json* saved = nullptr);

struct QuantizeResult {
  std::string kind;                 // vision, language or sequence
  Precision precision{}, before{};  // of the file written, and of the one read
  int64_t tensors = 0, rounded = 0;
  int64_t bytes_before = 0, bytes_after = 0;  // of all weights in float32, of the file written
  double largest_error = 0, mean_error = 0;   // as in StoredWeights
};

// Throws the usage Errors of quantize_model(), and writes nothing.
void check_quantize_output(const std::filesystem::path& out, Precision precision);

// Writes the model `in`, of any layout, as a model file with weights in fewer bits
// (store/weights_file.h), atomically and durably. First throws a usage Error for a precision that
// files do not store, and for an output that exists or is no .safetensors file. Throws data Errors
// for a model that cannot be read or rounded.
QuantizeResult quantize_model(const std::filesystem::path& in, const std::filesystem::path& out,
                              Precision precision, Weights weights = Weights::kRaw);

nlohmann::json to_json(const QuantizeResult& result);

}  // namespace tost
