// Trains an image classifier: data, model, loss and score for the loop.
#pragma once

#include <memory>
#include <optional>

#include "tost/data/loader.h"
#include "tost/kinds/vision/image_classifier.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/kinds/vision/train_config.h"
#include "tost/train/model_task.h"

namespace tost {

// `config` with the fields of model_options. Throws a usage Error for what they cannot be.
VisionConfig with_model_options(VisionConfig config, const nlohmann::json& options);

class VisionTask : public ModelTask<VisionTrainConfig, ModelInfo, ImageClassifier, Batch> {
 public:
  // Opens the data and makes the model. Torch's default generator draws the weights, or config.from
  // gives them. `known` is the description of a resumed run's model, whose classes the data must
  // have. With `has_checkpoint`, the checkpoint gives the weights, and config.from is not read.
  // Throws usage Errors for settings that do not match, data Errors for files.
  explicit VisionTask(const VisionTrainConfig& config,
                      std::optional<ModelInfo> known = std::nullopt, bool has_checkpoint = false);

  std::vector<ParamGroup> param_groups() override {
    return with_decay(vision_decay_groups(*model_));
  }
  std::string unit() const override { return "images"; }
  int64_t samples_per_batch() const override { return config_.batch; }
  int64_t batches_per_epoch() const override { return train_loader_->batches_per_epoch(); }
  void share_batches(const BatchShare& share, Group* group) override;
  void start_epoch(int64_t epoch, int64_t first_batch) override;
  void fetch() override;
  TaskInput take_input() override;
  TaskOutput compute(const std::vector<torch::Tensor>& tensors) override;
  double wait_seconds() const override { return train_loader_->wait_seconds(); }
  std::optional<nlohmann::json> evaluate(
      const std::atomic<bool>* stop) override;  // top1, top5, loss, images, ...
  int64_t evaluation_reads() const override { return eval_loader_->batches_per_epoch(); }
  BestMetric best_metric() const override { return {"top1", true}; }
  // Measures bounds on evenly spaced pictures of the scored split, the same at every call.
  nlohmann::json measure_bound() override;
  std::vector<std::string> take_messages() override;

 private:
  void make_loaders(std::shared_ptr<const ImageDataset> train);
  void take_weights(const LoadedModel& source);
  torch::Tensor bound_pictures() const;

  std::string scored_split_;
  std::unique_ptr<ImageLoader> train_loader_, eval_loader_;
  torch::Tensor bound_pictures_;  // undefined before the first measure_bound()
  std::vector<std::string> messages_;
  int64_t named_ = 0;  // of the loader's unreadable pictures, those put into messages_
};

}  // namespace tost
