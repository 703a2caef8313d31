#include "tost/kinds/quantize.h"

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/io/parse_json.h"
#include "tost/io/safetensors.h"
#include "tost/kinds/kinds.h"
#include "tost/nn/state_dict.h"
#include "tost/store/quantized_file.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

QuantizeResult write(const OpenedModel& opened, const fs::path& out, Precision precision) {
  const auto stored = store_weights(*opened.model, precision);
  auto metadata = opened.metadata;
  metadata[kPrecisionKey] = name_of(precision);
  save_safetensors(out, stored.tensors, metadata);
  QuantizeResult result;
  result.precision = precision;
  result.before = opened.precision;
  const StateDict state = state_dict(*opened.model);
  result.tensors = int64_t(state.size());
  result.bytes_before = tensor_bytes(state);
  result.rounded = stored.rounded;
  result.bytes_after = file_bytes(out);
  result.largest_error = stored.largest_error;
  result.mean_error = stored.mean_error;
  return result;
}

}  // namespace

void check_quantize_output(const fs::path& out, Precision precision) {
  storable_precision(name_of(precision));
  if (out.extension() != ".safetensors") {
    fail_usage("'", out.string(), "' does not end in .safetensors, as model files do.");
  }
  if (is_taken(out)) {
    fail_usage("'", out.string(), "' exists; name a file that does not.");
  }
}

QuantizeResult quantize_model(const fs::path& in, const fs::path& out, Precision precision,
                              Weights weights) {
  check_quantize_output(out, precision);
  const std::string kind = model_kind(in, weights);
  QuantizeResult result = write(kind_named(kind).open(in, weights), out, precision);
  result.kind = kind;
  return result;
}

nlohmann::json to_json(const QuantizeResult& r) {
  auto json = TOST_MEMBERS(r, kind, precision, tensors, bytes_before, bytes_after);
  json.update({{"precision_before", r.before},
               {"rounded_tensors", r.rounded},
               {"largest_weight_error", r.largest_error},
               {"mean_weight_error", r.mean_error}});
  return json;
}

}  // namespace tost
