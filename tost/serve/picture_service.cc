#include "tost/serve/picture_service.h"

#include <utility>

#include "tost/base/thread.h"
#include "tost/kinds/vision/engine.h"

namespace tost {

PictureService::PictureService(LoadedModel loaded, Precision precision, int64_t queue,
                               int64_t threads)
    : loaded_(std::move(loaded)),
      precision_(precision),
      runner_(*loaded_.model, precision, /*engine=*/VisionEngine::supports(*loaded_.model)),
      queue_(queue),
      threads_(threads) {
  thread_ = start_thread([this] { loop(); });
}

void PictureService::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool PictureService::run(std::function<void(PictureService&)> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || int64_t(works_.size()) >= queue_) return false;
    works_.push_back(std::move(work));
  }
  wake_.notify_all();
  return true;
}

torch::Tensor PictureService::probabilities(const std::vector<Image>& pictures) {
  const torch::InferenceMode no_grad;
  const auto& preprocess = loaded_.info.preprocess;
  const Normalizer normalize(preprocess);
  const auto batch = torch::empty(
      {int64_t(pictures.size()), preprocess.channels, preprocess.size, preprocess.size});
  for (size_t i = 0; i < pictures.size(); ++i) {
    normalize(pictures[i], batch[int64_t(i)].data_ptr<float>());
  }
  return runner_.logits(batch).to(torch::kDouble).softmax(1);
}

void PictureService::loop() {
  if (threads_ > 0) at::set_num_threads(int(threads_));
  for (;;) {
    std::function<void(PictureService&)> work;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !works_.empty(); });
      if (stopping_) return;
      work = std::move(works_.front());
      works_.pop_front();
    }
    work(*this);
  }
}

}  // namespace tost
