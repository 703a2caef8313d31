#include "tost/serve/picture_service.h"

#include "tost/kinds/vision/engine.h"

namespace tost {

PictureService::PictureService(LoadedModel loaded, Precision precision, int64_t queue,
                               int64_t threads)
    : loaded_(std::move(loaded)),
      precision_(precision),
      runner_(*loaded_.model, precision, /*engine=*/VisionEngine::supports(*loaded_.model)),
      thread_(1, queue, [threads] {
        if (threads > 0) at::set_num_threads(int(threads));
      }) {}

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

}  // namespace tost
