#include "tost/kinds/vision/run_score.h"

#include "tost/kinds/vision/evaluate.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/kinds/vision/train_config.h"
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

 private:
  VisionTrainConfig config_;
  LoadedModel loaded_;
  const std::atomic<bool>* stop_;
  std::shared_ptr<const ImageDataset> dataset_;
  std::string split_;
};

}  // namespace

std::optional<RunScores> score_pictures(const fs::path& run, const json& rule,
                                        const std::atomic<bool>* stop) {
  RunScores found;
  Scorer scorer(run, stop);
  const auto clean = scorer.score(rule.at("split").get<std::string>(), {});
  if (!clean) return std::nullopt;
  found.scores = {{"top1", clean->top1}, {"top5", clean->top5}, {"loss", clean->loss}};
  const json& corruptions = rule.at("corruptions");
  if (corruptions.is_null()) return found;
  const std::string split = corruptions.at("split").get<std::string>();
  for (const json& kind : corruptions.at("kinds")) {
    std::vector<double>& values = found.corrupted[kind.get<std::string>()];
    for (const json& strength : corruptions.at("strengths")) {
      const auto result = scorer.score(split, {kind.get<std::string>(), strength.get<int64_t>()});
      if (!result) return std::nullopt;
      values.push_back(result->top1);
    }
  }
  return found;
}

}  // namespace tost
