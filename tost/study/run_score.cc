#include "tost/study/run_score.h"

#include <cmath>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/sequence/eval.h"
#include "tost/kinds/sequence/file.h"
#include "tost/kinds/sequence/train_config.h"
#include "tost/kinds/vision/evaluate.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/kinds/vision/train_config.h"
#include "tost/store/manifest.h"
#include "tost/store/run_layout.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Pictures of one data split, and the model they are shown to.
class Scorer {
 public:
  Scorer(const fs::path& run, const std::atomic<bool>* stop)
      : config_(make_config(vision_train_form(), read_config_file(run / kConfigFile))),
        loaded_(load_model_file(final_checkpoint(run),
                                config_.evaluate_ema ? Weights::kEma : Weights::kRaw)),
        stop_(stop) {}

  std::optional<EvalResult> score(const std::string& split, const Corruption& corruption) {
    if (dataset_ == nullptr || split != split_) {
      dataset_ = open_image_dataset(data_spec(config_), split);
      split_ = split;
    }
    LoaderConfig loader_config;
    loader_config.batch_size = config_.eval_batch;
    loader_config.workers = 0;
    loader_config.preprocess = loaded_.info.preprocess;
    loader_config.corruption = corruption;
    ImageLoader loader(dataset_, loader_config);
    EvalOptions options;
    options.precision = config_.precision;
    options.stop = stop_;
    return evaluate(*loaded_.model, loader, options);
  }

  const VisionConfig& model() const { return loaded_.info.config; }

 private:
  VisionTrainConfig config_;
  LoadedModel loaded_;
  const std::atomic<bool>* stop_;
  std::shared_ptr<const ImageDataset> dataset_;
  std::string split_;
};

bool score_pictures(const fs::path& run, const json& rule, RunRecord& record,
                    const std::atomic<bool>* stop) {
  Scorer scorer(run, stop);
  const auto clean = scorer.score(rule.at("split").get<std::string>(), {});
  if (!clean) return false;
  record.scores = {{"top1", clean->top1}, {"top5", clean->top5}, {"loss", clean->loss}};
  record.corrupted.clear();
  const json& corruptions = rule.at("corruptions");
  if (corruptions.is_null()) return true;
  const std::string split = corruptions.at("split").get<std::string>();
  for (const json& kind : corruptions.at("kinds")) {
    std::vector<double>& values = record.corrupted[kind.get<std::string>()];
    for (const json& strength : corruptions.at("strengths")) {
      const auto result = scorer.score(split, {kind.get<std::string>(), strength.get<int64_t>()});
      if (!result) return false;
      values.push_back(result->top1);
    }
  }
  return true;
}

bool score_sequences(const fs::path& run, const json& rule, RunRecord& record,
                     const std::atomic<bool>* stop) {
  const SequenceTrainConfig config =
      make_config(sequence_train_form(), read_config_file(run / kConfigFile));
  const SequenceSpec spec = sequence_spec(config);
  const std::string split = rule.at("split").get<std::string>();
  const auto splits = sequence_dataset_splits(spec);
  const bool selected = split != "validation" &&
                        std::find(splits.begin(), splits.end(), "validation") != splits.end();
  // Of a run folder the best checkpoint is read.
  const LoadedSequence loaded = load_sequence_file(
      selected ? run : final_checkpoint(run), config.evaluate_ema ? Weights::kEma : Weights::kRaw);
  SequenceEvalOptions options;
  options.batch = config.eval_batch;
  options.precision = config.precision;
  options.stop = stop;
  const auto dataset = open_sequence_dataset(spec, split);
  const auto result = evaluate(*loaded.model, *dataset, options);
  if (!result) return false;
  record.scores = {{"top1", result->top1}, {"loss", result->loss}};
  return true;
}

// The evaluations in a run's log, in order.
std::vector<json> read_evaluations(const fs::path& run) {
  const fs::path path = run / kMetricsFile;
  const std::string text = read_file(path, int64_t{1} << 30);
  std::vector<json> found;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    json line = parse_json(std::string_view(text).substr(begin, end - begin),
                           cat("A line of '", path.string(), "'"));
    if (!line.is_object()) fail_data("'", path.string(), "' has a line that is not a JSON object.");
    if (line.value("kind", json()) == "eval") found.push_back(std::move(line));
  }
  return found;
}

double number(const json& line, const std::string& key) {
  const auto value = line.find(key);
  return value != line.end() && value->is_number() ? value->get<double>() : std::nan("");
}

int64_t integer(const json& line, const char* key) {
  const auto value = line.find(key);
  if (value == line.end() || !value->is_number_integer()) {
    fail_data("An evaluation in ", kMetricsFile, " has no integer '", key,
              "'; train the run again.");
  }
  return value->get<int64_t>();
}

ScoreCurve curve_of(const std::vector<json>& evaluations, const std::string& metric) {
  ScoreCurve curve;
  for (const json& line : evaluations) {
    curve.steps.push_back(integer(line, "step"));
    curve.epochs.push_back(integer(line, "epoch"));
    curve.values.push_back(number(line, metric));
  }
  return curve;
}

// accuracy, exact and loss, and the accuracy of every case.
std::map<std::string, double> recall_scores(const json& evaluation) {
  std::map<std::string, double> scores;
  for (const char* key : {"accuracy", "exact", "loss"}) scores[key] = number(evaluation, key);
  for (const json& one : evaluation.value("cases", json::array())) {
    if (!one.is_object()) continue;
    std::string name = kCaseScore + cat(integer(one, "length"));
    if (one.contains("pairs")) name += cat("/", integer(one, "pairs"));
    scores[name] = number(one, "accuracy");
  }
  return scores;
}

// Mixers without heads have them in their configuration all the same.
void read_heads(const fs::path& run, RunRecord& record) {
  const fs::path file = run / kModelInfoFile;
  const json model = parse_json(read_file(file, int64_t{64} << 20), cat("'", file.string(), "'"));
  if (!model.is_object() || !model.contains("config")) return;
  const json& config = model["config"];
  const double dim = number(config, "dim"), heads = number(config, "heads");
  const json mixer = config.value("mixer", json());
  if (mixer == "none" || mixer == "ssm" || config.value("architecture", json()) == "linear") return;
  if (!(heads >= 1 && dim >= heads)) return;
  record.heads = static_cast<int64_t>(heads);
  record.head_width = static_cast<int64_t>(dim / heads);
}

}  // namespace

std::string score_metric(const std::string& kind) {
  if (kind == "recall") return "accuracy";
  return kind == "vision" || kind == "sequence" ? "top1" : "loss";
}

json scoring_rule(const SweepSpec& spec, const std::string& kind) {
  if (score_metric(kind) != "top1") return {{"split", "validation"}, {"corruptions", nullptr}};
  json corruptions;
  if (spec.corruptions) {
    corruptions = {{"kinds", spec.corruptions->kinds},
                   {"strengths", spec.corruptions->strengths},
                   {"split", spec.corruptions->split}};
  }
  return {{"split", spec.split.empty() ? "test" : spec.split}, {"corruptions", corruptions}};
}

fs::path final_checkpoint(const fs::path& run) {
  const fs::path found = find_checkpoint(run / kCheckpointFolder, {kLatestPointer});
  if (found.empty()) fail_data("'", run.string(), "' has no checkpoint to score.");
  return found;
}

bool score_run(const fs::path& run, const std::string& kind, const json& rule, RunRecord& record,
               const std::atomic<bool>* stop) {
  const std::vector<json> evaluations = read_evaluations(run);
  record.metric = score_metric(kind);
  if (kind == "vision") {
    if (!score_pictures(run, rule, record, stop)) return false;
  } else if (kind == "sequence") {
    if (!score_sequences(run, rule, record, stop)) return false;
  } else if (evaluations.empty()) {
    fail_data("'", run.string(), "' has no evaluation to read the ", record.metric, " from.");
  } else if (kind == "recall") {
    record.scores = recall_scores(evaluations.back());
  } else {
    record.scores = {{"loss", number(evaluations.back(), "loss")}};
  }
  record.curve = curve_of(evaluations, record.metric);
  read_heads(run, record);
  record.scored_by = rule;
  return true;
}

}  // namespace tost
