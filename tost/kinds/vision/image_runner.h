// Runs an image classifier over pictures: logits, labels and scores in training.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "tost/comm/group.h"
#include "tost/data/loader.h"
#include "tost/data/watched_read.h"
#include "tost/kinds/vision/engine.h"
#include "tost/kinds/vision/image_classifier.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/nn/metrics.h"
#include "tost/nn/precision.h"
#include "tost/torch.h"

namespace tost {

// Maps pictures to logits in a precision, by the inference engine or by modules.
class ImageRunner {
 public:
  // `model` must be in evaluation mode and outlive the runner. `engine` selects VisionEngine if it
  // supports the model. Throws a usage Error for a precision other than fp32, bf16 and, with the
  // engine, int8.
  ImageRunner(ImageClassifier& model, Precision precision, bool engine);

  ImageRunner(const ImageRunner&) = delete;
  ImageRunner& operator=(const ImageRunner&) = delete;

  // Maps images [B, in_channels, Y, X] to logits [B, classes], without gradients.
  torch::Tensor logits(const torch::Tensor& images);

  // Maps count images of preprocessed values to logits [count, classes] in memory.
  void logits(const float* images, int64_t count, const Preprocess& preprocess, float* to);

  bool by_engine() const { return engine_.has_value(); }

 private:
  ImageClassifier& model_;
  Precision precision_;
  std::optional<VisionEngine> engine_;
};

// Predicts each picture in order. `model` must be in evaluation mode. Throws a data Error naming
// the first image that cannot be read, a usage Error for top_k < 1 or no paths.
std::vector<Prediction> predict_images(ImageClassifier& model, const ModelInfo& info,
                                       const std::vector<std::string>& paths,
                                       const PredictOptions& options = {});

struct EvalOptions {
  Precision precision = Precision::kFp32;  // or bf16
  const std::atomic<bool>* stop = nullptr;
  ReadGuard read_guard = {};  // of every batch
  Group* group = nullptr;  // of processes that each score some batches, as their loaders give them
};

// Scores epoch 0 of `loader` (made with train = false) in evaluation mode without gradients, and
// restores the model's mode. Returns nothing if `stop` ended it. With a group, the result is that
// of all processes. Throws a data Error for an unreadable image.
std::optional<ClassScores> evaluate(ImageClassifier& model, ImageLoader& loader,
                                    const EvalOptions& options = {});

}  // namespace tost
