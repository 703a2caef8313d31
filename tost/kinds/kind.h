// The interface of a kind of model, for code that handles models of any kind.
#pragma once

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/bench/bench_model.h"
#include "tost/engine/picture_scores.h"
#include "tost/engine/run_layout.h"
#include "tost/explain/report.h"
#include "tost/io/dataset.h"
#include "tost/nn/metrics.h"
#include "tost/nn/precision.h"
#include "tost/store/weights_file.h"
#include "tost/torch.h"
#include "tost/train/config_form.h"
#include "tost/train/run_kind.h"

namespace tost {

struct OpenedModel {
  std::shared_ptr<torch::nn::Module> model;     // float32, in evaluation mode
  std::map<std::string, std::string> metadata;  // that describes it in a safetensors file
  Precision precision = Precision::kFp32;       // that the file holds its weights in
};

struct ScoreRequest : ModelRequest, ScoreOptions {
  // Set if `file` is a run folder to be scored as in studies. Studies use the last checkpoint, or
  // the best one if the run selected it on other data than the split.
  bool as_trained = false;
  // Settings of the data under the keys of training, such as "data" (see scored_data()).
  nlohmann::json data = nlohmann::json::object();
};

struct ExplainRequest : ModelRequest, ReportOptions {
  std::vector<std::string> inputs;  // pictures, or the file of the passage; none: of the data
  std::string data, data_format = "auto";  // of the statistics; "": what the run was trained on
  std::string split;                       // "": validation, else test
  bool samples_set = false;
  // Settings of language models.
  std::optional<std::string> text;  // the passage
  int64_t max_tokens = 400;         // of it
  std::string tokenizer;            // "": the model's
};

// Opens the data of an explanation by `open`, if request or run name such data (`known`). Returns
// "", or the reason why there are no data. Only data that the request names must exist.
inline std::string open_known_data(const ExplainRequest& request, bool known,
                                   const std::function<void()>& open) {
  if (!known) {
    return "the model file is not in a run folder that names its data; give it with --data.";
  }
  try {
    open();
  } catch (const Error& error) {
    if (!request.data.empty() || !request.split.empty()) throw;
    return cat("the run's data cannot be opened any more (", error.what(),
               ") Give it with --data.");
  }
  return "";
}

// The configuration of the run that contains a model file (RUN/checkpoints/STEP/FILE); nothing if
// there is no run or its recipe is of another kind.
template <class Config>
std::optional<Config> run_config(const ConfigForm<Config>& form,
                                 const std::filesystem::path& model_file) {
  const auto file = run_config_file(model_file);
  if (!file) return std::nullopt;
  nlohmann::json values = read_config_file(*file);
  const auto recipes = names_of(form.recipes);
  const auto recipe = values.find("recipe");
  const bool other_kind =
      recipe != values.end() && std::find(recipes.begin(), recipes.end(), *recipe) == recipes.end();
  if (other_kind) return std::nullopt;
  values.erase("from");  // need not be there any more
  return make_config(form, values, cat("'", file->string(), "'"));
}

// A column of the table of presets: its title, and its key in a preset's description.
struct PresetColumn {
  const char *title, *key;
  int width;
};

struct PresetTable {
  std::string key, title;  // of the list in JSON, and of the first column
  std::vector<PresetColumn> columns;
  std::string note;  // below the table; may be empty
  // Describes a preset by name, architecture and "parameters".
  std::function<nlohmann::json(const std::string& name)> describe;
};

struct Kind {
  std::string name;           // "vision", as model_kind() has it
  std::string label;          // before "model" in messages: "image"
  std::vector<RunKind> runs;  // the trainable kinds of runs; the first has the name of the kind
  PresetTable table;          // of the presets of all runs
  bool decodes = false;       // token by token, where a step is bound by reading the weights
  // Opens a model file of this program or of others. Throws the data Errors of
  // find_intact_model_file(), and one for weights that do not fit.
  std::function<OpenedModel(const std::filesystem::path& path, Weights weights)> open;
  // Scores a model file. Returns "checkpoint", "model", "precision", "split", the scores, "images"
  // (the number of samples) and "seconds", or null if stopped.
  std::function<nlohmann::json(const ScoreRequest& request)> score;
  std::vector<std::string> data_keys;  // of the settings that select the generated data to score
  // Labels pictures or texts; null for kinds without labels.
  std::function<PredictReport(const PredictRequest& request)> predict;
  // The report of `tost explain` (docs/explain.md); returns null if stopped. Some kinds have none.
  std::function<nlohmann::json(const ExplainRequest& request)> explain;
  std::function<std::unique_ptr<BenchModel>(const BenchModelSource& source, bool file)> open_bench;

  std::vector<std::string> presets() const {
    std::vector<std::string> names;
    for (const RunKind& run : runs) names.insert(names.end(), run.models.begin(), run.models.end());
    return names;
  }
};

// The table of kinds. A kind has a row here, and a folder kinds/NAME/ that defines NAME_kind().
#define TOST_KINDS(X) X(vision) X(language) X(sequence)

#define TOST_DECLARE_KIND(name) Kind name##_kind();
TOST_KINDS(TOST_DECLARE_KIND)
#undef TOST_DECLARE_KIND

}  // namespace tost
