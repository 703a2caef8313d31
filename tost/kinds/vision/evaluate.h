// Scores a classifier over a loader's images.
#pragma once

#include <atomic>
#include <functional>
#include <optional>

#include "tost/comm/group.h"
#include "tost/data/loader.h"
#include "tost/data/watched_read.h"
#include "tost/kinds/vision/image_classifier.h"
#include "tost/nn/precision.h"

namespace tost {

struct EvalOptions {
  Precision precision = Precision::kFp32;  // or bf16, or int8 with `engine`
  bool engine = false;  // where the inference engine supports the model (image_runner.h)
  const std::atomic<bool>* stop = nullptr;
  std::function<void(int64_t images, int64_t total)> progress;  // after every batch
  ReadGuard read_guard = {};                                    // of every batch
  Group* group = nullptr;  // of processes that each score some batches, as their loaders give them
};

struct EvalResult {
  double top1 = 0, top5 = 0;  // shares, 0 ... 1
  double loss = 0;            // mean cross-entropy in nats, without label smoothing
  int64_t images = 0;
  double seconds = 0;  // of the whole pass, data included
  double images_per_s = 0;
  torch::Tensor confusion;  // [K, K] int64, row true class, column prediction
};

// Epoch 0 of `loader` (made with train = false) through the model in evaluation mode, without
// gradients; the model's mode is put back. Nothing when `stop` ended it. Throws a usage Error when
// the data has another number of classes than the model, a data Error for an unreadable image.
// Deterministic. With a group, the result is that of all processes.
std::optional<EvalResult> evaluate(ImageClassifier& model, ImageLoader& loader,
                                   const EvalOptions& options = {});

// top1, top5, loss, images, seconds, images_per_s.
nlohmann::json to_json(const EvalResult& result);

}  // namespace tost
