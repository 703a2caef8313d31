#include "tost/kinds/kinds.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/data/sequence_dataset.h"
#include "tost/data/token_task.h"
#include "tost/io/dataset.h"
#include "tost/io/parse_json.h"
#include "tost/io/text_layout.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/safetensors.h"

namespace tost {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool has_field(const RunKind& kind, const std::string& key) {
  return std::any_of(kind.fields.begin(), kind.fields.end(),
                     [&](const FieldInfo& field) { return field.key == key; });
}

// The kind that has `name` among its `names`.
const RunKind& kind_with(std::vector<std::string> RunKind::*names, const std::string& what,
                         const std::string& name) {
  std::vector<std::string> all;
  for (const RunKind& kind : run_kinds()) {
    if (has(kind.*names, name)) return kind;
    all.insert(all.end(), (kind.*names).begin(), (kind.*names).end());
  }
  fail_usage("Unknown ", what, " '", name, "' (known: ", join(all, ", "), ").",
             did_you_mean(name, all));
}

// A setting that shows the kind of a run, and the kind.
struct Hint {
  const RunKind* kind;
  std::string reason;  // "tost_gpt_char is a language model"
};

std::string text_of(const json& values, const char* key) {
  const auto found = values.find(key);
  return found != values.end() && found->is_string() ? found->get<std::string>() : "";
}

// The settings that show the kind. A saved configuration shows the kind by recipe, not by `from`.
std::vector<Hint> hints(const json& values, bool saved) {
  std::vector<Hint> found;
  const std::string model = text_of(values, "model"), recipe = text_of(values, "recipe");
  if (!model.empty()) {
    const RunKind& kind = kind_with(&RunKind::models, "model", model);
    found.push_back({&kind, cat(model, " is ", with_article(kind.noun))});
  }
  const std::string from =
      absolute_setting(text_of(values, "from"));  // as the configuration has it
  if (!from.empty() && !saved) {
    const std::string files = model_kind(from);
    // Uses the recipe, because several kinds of run write the same files.
    const bool specific =
        !recipe.empty() && kind_with(&RunKind::recipes, "recipe", recipe).files == files;
    const RunKind& kind = run_kind_named(files);
    if (!specific) found.push_back({&kind, cat("'", from, "' holds ", with_article(kind.noun))});
  }
  if (!recipe.empty()) {
    const RunKind& kind = kind_with(&RunKind::recipes, "recipe", recipe);
    found.push_back({&kind, cat("recipe ", recipe, " is for ", kind.noun, "s")});
  }
  return found;
}

Hint agreed(const std::vector<Hint>& found) {
  for (const Hint& hint : found) {
    if (hint.kind != found.front().kind) {
      fail_usage(found.front().reason, " but ", hint.reason, "; leave one out.");
    }
  }
  return found.front();
}

// Refuses a preset with a file, because a fine-tuned model has the architecture of the file.
void check_model_and_from(const json& values, const json& from_values) {
  const std::string model = text_of(values, "model"), from = text_of(from_values, "from");
  if (model.empty() || from.empty()) return;
  fail_usage("model ", model, " cannot be given together with from: the model is that of '", from,
             "'; leave one out.");
}

void check_keys(const Hint& chosen, const json& values) {
  for (const auto& [key, value] : values.items()) {
    if (has_field(*chosen.kind, key)) continue;
    for (const RunKind& other : run_kinds()) {
      if (!has_field(other, key)) continue;
      fail_usage(key, " is a setting of ", other.noun, "s; ", chosen.reason, ".");
    }
  }
}

// Whether the file has a format that is read as text.
bool is_text_file(const std::string& path) {
  const std::string start = read_beginning(path, 4096);
  return !start.empty() && start.find('\0') == std::string::npos;
}

std::string kind_name_of_data(const std::string& path) {
  if (is_token_task(path)) return "task";
  if (is_plain_file(path)) {
    if (!is_text_file(path)) return "";
    return ends_with(to_lower(path), ".tsv") ? "sequence" : "language";
  }
  if (is_sequence_data({.path = path})) return "sequence";
  try {
    image_dataset_format({.path = path});
    return "vision";
  } catch (const Error&) {
  }
  try {
    find_text(path, 0);
    return "language";
  } catch (const Error&) {
    return "";
  }
}

// Refuses data that are obviously no pictures, because image models are the default.
void check_pictures(const std::string& data, const RunKind& usual) {
  const RunKind* kind = kind_of_data(data);
  if (kind == nullptr || kind == &usual) return;
  fail_usage("'", data, "' is data for ", with_article(kind->noun),
             ", and without recipe, model or from ", usual.noun, "s are trained; add --recipe ",
             kind->recipes.front(), ".");
}

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

const RunKind& run_kind_named(const std::string& name) {
  for (const RunKind& kind : run_kinds()) {
    if (kind.name == name) return kind;
  }
  fail_usage("Models of kind '", name, "' cannot be trained.");
}

const RunKind* kind_of_data(const std::string& path) {
  const std::string name = path.empty() ? "" : kind_name_of_data(path);
  return name.empty() ? nullptr : &run_kind_named(name);
}

const std::vector<Kind>& kinds() {
#define TOST_KIND(name) name##_kind(),
  static const std::vector<Kind> all{TOST_KINDS(TOST_KIND)};
#undef TOST_KIND
  return all;
}

const Kind& kind_named(const std::string& name) {
  for (const Kind& kind : kinds()) {
    if (kind.name == name) return kind;
  }
  fail_data("Models of kind '", name, "' are not known here.");
}

const std::vector<RunKind>& run_kinds() {
  static const std::vector<RunKind> all = [] {
    std::vector<RunKind> runs;
    for (const Kind& kind : kinds()) runs.insert(runs.end(), kind.runs.begin(), kind.runs.end());
    return runs;
  }();
  return all;
}

const RunKind& choose_run_kind(const json& values, const json* saved) {
  check_model_and_from(values, saved != nullptr ? *saved : values);
  std::vector<Hint> found = hints(saved != nullptr ? *saved : values, saved != nullptr);
  if (found.empty()) {
    const std::string data = text_of(values, "data");
    if (is_token_task(data)) {
      found.push_back({&run_kind_named("task"), cat("'", data, "' is a task of tokens")});
    }
  }
  if (found.empty()) {
    const RunKind& usual = run_kinds().front();
    check_pictures(text_of(values, "data"), usual);
    found.push_back({&usual, cat("without model, recipe or from, ", usual.noun, "s are trained")});
  }
  const Hint chosen = agreed(found);
  check_keys(chosen, values);
  return *chosen.kind;
}

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
