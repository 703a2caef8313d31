// One image classifier and the thread that runs it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "tost/kinds/vision/image_runner.h"
#include "tost/kinds/vision/model_file.h"

namespace tost {

class PictureService {
 public:
  PictureService(LoadedModel loaded, Precision precision, int64_t queue, int64_t threads);
  ~PictureService() { stop(); }
  PictureService(const PictureService&) = delete;
  PictureService& operator=(const PictureService&) = delete;

  // Ends what runs and takes nothing more. May be called again.
  void stop();

  const LoadedModel& loaded() const { return loaded_; }
  Precision precision() const { return precision_; }

  // Runs `work`, which must not throw, on the model's thread. False where too many wait.
  bool run(std::function<void(PictureService&)> work);

  // On the model's thread. Probabilities [B, classes] float64 of pictures as the network sees them.
  torch::Tensor probabilities(const std::vector<Image>& pictures);

 private:
  void loop();

  LoadedModel loaded_;
  const Precision precision_;
  ImageRunner runner_;
  const int64_t queue_, threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void(PictureService&)>> works_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tost
