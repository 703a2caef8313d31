// Makes language models a row of the table of kinds.
#include "tost/kinds/kind.h"

#include <iostream>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/data/token_task.h"
#include "tost/engine/language_scores.h"
#include "tost/engine/language_text.h"
#include "tost/io/parse_json.h"
#include "tost/io/text_layout.h"
#include "tost/kinds/language/engine.h"
#include "tost/kinds/language/explain_report.h"
#include "tost/kinds/language/file.h"
#include "tost/kinds/language/model.h"
#include "tost/kinds/language/task.h"
#include "tost/kinds/language/train_config.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/device.h"
#include "tost/train/run_kind.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

RunKind language_run_kind() {
  RunKind kind = make_run_kind<LanguageTask>("language", "language model", language_train_form(),
                                             language_preset_names(), language_info_from_json);
  kind.metric = "loss";
  return kind;
}

RunKind answer_run_kind() {
  RunKind kind = make_run_kind<AnswerTask>("task", "task model", answer_train_form(),
                                           recall_preset_names(), language_info_from_json);
  kind.files = "language";
  kind.metric = "accuracy";
  return kind;
}

OpenedModel open_language(const std::filesystem::path& path, Weights weights) {
  const auto loaded = load_language_file(path, weights);
  return {loaded.model, to_metadata(loaded.info), loaded.precision};
}

json score_language(const ScoreRequest& request) {
  const LoadedLanguage loaded = load_language_file(request.file, request.weights);
  read_by_engine(loaded.model, loaded.precision);
  const auto path = request.data.at("data").get<std::string>();
  const LanguageText text = load_language_text({path, request.split}, loaded.info);
  LanguageLossOptions options;
  options.stop = request.stop;
  options.progress = [&](int64_t done, int64_t total) {
    request.progress(done, total, "tokens scored");
  };
  const auto result = language_loss(*loaded.model, *text.tokens, text.bytes, options);
  if (!result) return {};
  json report = to_json(*result);
  report["precision"] = loaded.precision;
  return report;
}

TextSpec explained_text(const ExplainRequest& request, const fs::path& model_file) {
  TextSpec spec;
  spec.path = request.data;
  const auto config = run_config(language_train_form(), model_file);
  if (!config) return spec;
  spec.holdout = config->holdout;
  if (spec.path.empty()) spec.path = config->data;
  return spec;
}

// Opens a split; null if it does not exist or is empty.
std::shared_ptr<const TokenSource> open_part(const TextSpec& spec, const std::string& split,
                                             const LanguageInfo& info) {
  const TextLayout layout = find_text(spec.path, spec.holdout);
  const bool held_back = split == "validation" && spec.holdout > 0;
  if (layout.parts.count(split) == 0 && !held_back) return nullptr;
  if (!layout.tokens) {
    needed_tokenizer(info, cat("the text '", spec.path, "' cannot be read"));
  }
  return open_text_split(spec, split, info.tokenizer).tokens;
}

void open_explained(const ExplainRequest& request, const TextSpec& spec, const LanguageInfo& info,
                    TextExplainOptions& options) {
  options.data = spec.path;
  std::vector<std::string> held = {"validation", "test"};
  if (!request.split.empty()) held = {request.split == "val" ? "validation" : request.split};
  for (const auto& split : held) {
    if (options.held != nullptr) break;
    options.held = request.split.empty() ? open_part(spec, split, info)
                                         : open_text_split(spec, split, info.tokenizer).tokens;
    options.held_split = split;
  }
  if (request.split != "train") options.train = open_part(spec, "train", info);
}

// The folder of the task (token_task.h) in the request, or else in the run; "" for other data.
std::string task_folder(const ExplainRequest& request, const fs::path& model_file) {
  std::string folder = request.data;
  if (folder.empty()) {
    if (const auto config = run_config(answer_train_form(), model_file)) folder = config->data;
  }
  return is_token_task(folder) ? folder : "";
}

// The first sample of the requested split, else of the first split that exists.
Passage passage_of_task(const ExplainRequest& request, const LanguageInfo& info,
                        const std::string& folder) {
  std::string split = request.split;
  for (const char* name : {"validation", "test", "train"}) {
    if (split.empty() && is_plain_file(fs::path(folder) / cat(name, ".safetensors"))) split = name;
  }
  const torch::Tensor ids = TokenTaskData(folder, split).batch(0, {0}).ids[0].to(torch::kInt32);
  const int32_t* first = ids.const_data_ptr<int32_t>();
  const TokenSource source({first, first + ids.numel()}, folder);
  return passage_of_tokens(info, source, cat("the first sample of '", folder, "' (", split, ")"),
                           request.max_tokens);
}

Passage passage_of(const ExplainRequest& request, const LanguageInfo& info, const std::string& task,
                   const TextExplainOptions& options) {
  if (request.inputs.size() + size_t(request.text.has_value()) > 1) {
    fail_usage("One passage is shown; give one file, or --text alone.");
  }
  if (request.text) return passage_of_text(info, *request.text, "--text", request.max_tokens);
  if (!request.inputs.empty()) {
    const std::string& file = request.inputs.front();
    if (file != "-") return passage_of_file(info, file, request.max_tokens);
    return passage_of_stream(info, std::cin, "the standard input", request.max_tokens);
  }
  if (!task.empty()) return passage_of_task(request, info, task);
  const auto& source = options.held != nullptr ? options.held : options.train;
  if (source == nullptr) {
    fail_usage("There is no passage to show: the run's data cannot be found; give --text, a file, ",
               "or --data.");
  }
  const std::string split = options.held != nullptr ? options.held_split : "train";
  return passage_of_tokens(info, *source,
                           cat("the beginning of '", options.data, "' (", split, ")"),
                           request.max_tokens);
}

// Opens the data of the statistics, or returns the reason why there are no data.
void add_explained(const ExplainRequest& request, const LoadedLanguage& loaded,
                   const std::string& task, TextExplainOptions& options) {
  std::string missing = "the data are samples of a task, which are not text.";
  if (task.empty()) {
    const TextSpec spec = explained_text(request, loaded.file);
    missing = open_known_data(request, !spec.path.empty(),
                              [&] { open_explained(request, spec, loaded.info, options); });
  }
  if (missing.empty()) return;
  options.train = options.held = nullptr;
  options.no_data = "Statistics over windows are left out: " + missing;
}

json explain_language(const ExplainRequest& request) {
  LoadedLanguage loaded = load_language_file(request.file, request.weights);
  choose_tokenizer({.name = request.tokenizer, .data = request.data}, loaded.info,
                   loaded.file.string());
  loaded.model->to(device_from_name(request.device));
  TextExplainOptions options{{request}, request.samples_set};
  const std::string task = task_folder(request, loaded.file);
  add_explained(request, loaded, task, options);
  const Passage passage = passage_of(request, loaded.info, task, options);
  const auto report = explain_text(loaded, passage, options);
  return report ? to_json(*report) : json();
}

json describe_language(const std::string& name) {
  const LanguageConfig config = language_preset(name);
  const auto model = make_language_model(config, WeightInit::kNone);
  json row = TOST_MEMBERS(config, mixer, block, positions, vocab, dim, depth, heads);
  row["name"] = name;
  row["parameters"] = parameter_count(*model);
  return row;
}

}  // namespace

Kind language_kind() {
  Kind kind;
  kind.name = "language";
  kind.label = "language";
  kind.runs = {language_run_kind(), answer_run_kind()};
  kind.table = {.key = "language_models",
                .title = "language model",
                .columns = {{"block", "block", 6},
                            {"vocab", "vocab", 7},
                            {"dim", "dim", 6},
                            {"depth", "depth", 6},
                            {"heads", "heads", 6},
                            {"parameters", "parameters", 14}},
                .note = "char, char_gpu and words take the vocabulary of their data.",
                .describe = describe_language};
  kind.decodes = true;
  kind.open = open_language;
  kind.score = score_language;
  kind.explain = explain_language;
  kind.open_bench = open_bench_language;
  return kind;
}

}  // namespace tost
