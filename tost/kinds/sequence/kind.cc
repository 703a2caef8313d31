// Makes classifiers of sequences a row of the table of kinds.
#include "tost/kinds/kind.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/engine/run_layout.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/sequence/classifier.h"
#include "tost/kinds/sequence/eval.h"
#include "tost/kinds/sequence/file.h"
#include "tost/kinds/sequence/task.h"
#include "tost/kinds/sequence/train_config.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/device.h"
#include "tost/store/weights_file.h"
#include "tost/train/run_kind.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

RunKind sequence_run_kind() {
  RunKind kind = make_run_kind<SequenceTask>("sequence", "sequence model", sequence_train_form(),
                                             sequence_preset_names(), sequence_info_from_json);
  kind.metric = "top1";
  kind.scored = true;
  return kind;
}

OpenedModel open_sequence(const std::filesystem::path& path, Weights weights) {
  const auto loaded = load_sequence_file(path, weights);
  return {loaded.model, to_metadata(loaded.info), loaded.precision};
}

LoadedSequence open_for(const ModelRequest& request, const fs::path& file) {
  LoadedSequence loaded = load_sequence_file(file, request.weights);
  loaded.model->to(device_from_name(request.device));
  loaded.precision = chosen_precision(request.precision, loaded.precision,
                                      classifier_precisions(/*engine=*/false));
  return loaded;
}

json by_length(const SequenceEvalResult& result) {
  json rows = json::array();
  for (const LengthQuarter& q : result.quarters) {
    rows.push_back(TOST_MEMBERS(q, shortest, longest, sequences, top1));
  }
  return rows;
}

// The checkpoint that was best on the run's validation split, or the last checkpoint if there is no
// such split or the validation split is scored.
fs::path scored_file(const ScoreRequest& request, const SequenceSpec& spec,
                     const std::string& split) {
  if (!request.as_trained) return request.file;
  const auto splits = sequence_dataset_splits(spec);
  const bool selected =
      split != "validation" && std::ranges::find(splits, "validation") != splits.end();
  return selected ? fs::path(request.file) : final_checkpoint(request.file);
}

json score_sequence(const ScoreRequest& request) {
  const std::string split = request.split.empty() ? "test" : request.split;
  json settings = request.data;
  // Allows paths with bytes that are not UTF-8, because these are only read and not stored.
  const std::string path = settings.at("data");
  settings.erase("data");
  SequenceSpec spec = sequence_spec(make_config(sequence_train_form(), settings));
  spec.path = path;
  const LoadedSequence loaded = open_for(request, scored_file(request, spec, split));
  if (!settings.contains("max_length")) spec.max_length = loaded.info.cut;
  const auto dataset = open_sequence_dataset(spec, split);
  check_sequence_data(loaded.info, *dataset, path);
  SequenceEvalOptions options;
  if (request.batch > 0) options.batch = request.batch;
  options.precision = loaded.precision;
  options.stop = request.stop;
  options.progress = [&](int64_t done, int64_t total) {
    request.progress(done, total, "sequences scored");
  };
  const auto result = evaluate(*loaded.model, *dataset, options);
  if (!result) return {};
  json report = to_json(*result);
  report.update({{"by_length", by_length(*result)},
                 {"checkpoint", loaded.file.string()},
                 {"split", split},
                 {"precision", loaded.precision},
                 {"model", loaded.info.config.name}});
  if (request.per_class)
    report["per_class"] = class_rows(result->scores, loaded.info.classes, "sequences");
  return report;
}

constexpr char kReads[] =
    "sequence models read --text or --text-file; pixel models are scored by tost eval.";

PredictReport predict_sequences(const PredictRequest& request) {
  constexpr int64_t kMaxTextBytes = int64_t{64} << 20;
  if (!request.pictures.empty()) fail_usage("Pictures were given; ", kReads);
  if (request.texts.empty() && request.text_files.empty())
    fail_usage("No text was given; ", kReads);
  const LoadedSequence loaded = open_for(request, request.file);
  std::vector<SequenceText> texts;
  for (const std::string& text : request.texts) texts.push_back({text, request.second});
  for (const std::string& path : request.text_files)
    texts.push_back({read_file(path, kMaxTextBytes), request.second});
  const PredictOptions options{.top_k = request.top, .precision = loaded.precision};
  PredictReport report{loaded.file, predict_texts(*loaded.model, loaded.info, texts, options)};
  for (size_t i = 0; i < request.text_files.size(); ++i)
    report.predictions[request.texts.size() + i].path = request.text_files[i];
  return report;
}

json describe_sequence(const std::string& name) {
  const SequenceConfig config = sequence_preset(name);
  const auto model = make_sequence_classifier(config, WeightInit::kNone);
  json row = TOST_MEMBERS(config, mixer, max_length, positions, pool, dim, depth, heads);
  row["name"] = name;
  row["parameters"] = parameter_count(*model);
  return row;
}

}  // namespace

Kind sequence_kind() {
  Kind kind;
  kind.name = "sequence";
  kind.label = "sequence";
  kind.runs = {sequence_run_kind()};
  kind.table = {.key = "sequence_models",
                .title = "sequence model",
                .columns = {{"length", "max_length", 8},
                            {"dim", "dim", 6},
                            {"depth", "depth", 6},
                            {"heads", "heads", 6},
                            {"parameters", "parameters", 14}},
                .note = "They take the vocabulary and the classes of their data.",
                .describe = describe_sequence};
  kind.open = open_sequence;
  kind.score = score_sequence;
  kind.data_keys = {"max_length", "data_seed",  "train_size", "test_size",
                    "min_tokens", "max_tokens", "max_depth",  "max_arguments"};
  kind.predict = predict_sequences;
  kind.open_bench = open_bench_sequence;
  return kind;
}

}  // namespace tost
