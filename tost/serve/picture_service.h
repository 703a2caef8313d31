// One image classifier and the thread that runs it.
#pragma once

#include <functional>
#include <utility>

#include "tost/kinds/vision/image_runner.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/serve/workers.h"

namespace tost {

class PictureService {
 public:
  PictureService(LoadedModel loaded, Precision precision, int64_t queue, int64_t threads);
  // Runs what waits and takes nothing more. May be called again.
  void stop() { thread_.stop(); }

  const LoadedModel& loaded() const { return loaded_; }
  Precision precision() const { return precision_; }

  // Runs `work`, which must not throw, on the model's thread. False where too many wait.
  bool run(std::function<void(PictureService&)> work) {
    return thread_.run([this, work = std::move(work)] { work(*this); });
  }

  // On the model's thread. Probabilities [B, classes] float64 of pictures as the network sees them.
  torch::Tensor probabilities(const std::vector<Image>& pictures);

 private:
  LoadedModel loaded_;
  const Precision precision_;
  ImageRunner runner_;
  Workers thread_;
};

}  // namespace tost
