#include "tost/kinds/vision/predict.h"

#include "tost/base/error.h"
#include "tost/kinds/vision/image_runner.h"

namespace tost {
namespace {

using torch::Tensor;

Tensor read_batch(const Preprocess& preprocess, const std::vector<std::string>& paths, size_t begin,
                  size_t end) {
  const Normalizer normalize(preprocess);
  const Tensor images =
      torch::empty({int64_t(end - begin), preprocess.channels, preprocess.size, preprocess.size});
  for (size_t i = begin; i < end; ++i) {
    normalize(fit_image(read_image(paths[i]), preprocess),
              images[int64_t(i - begin)].data_ptr<float>());
  }
  return images;
}

}  // namespace

std::vector<Prediction> predict_images(ImageClassifier& model, const ModelInfo& info,
                                       const std::vector<std::string>& paths,
                                       const PredictOptions& options) {
  if (options.batch_size < 1)
    fail_usage("The batch is ", options.batch_size, " but must be at least 1.");
  if (paths.empty()) fail_usage("No image was given to predict.");
  const torch::InferenceMode no_grad;
  ImageRunner runner(model, options.precision, options.engine);
  std::vector<Prediction> predictions;
  for (size_t begin = 0; begin < paths.size();) {
    const size_t end = std::min(paths.size(), begin + size_t(options.batch_size));
    const Tensor logits = runner.logits(read_batch(info.preprocess, paths, begin, end));
    const Tensor probabilities = logits.to(torch::kCPU).to(torch::kDouble).softmax(1);
    for (size_t i = begin; i < end; ++i) {
      predictions.push_back(
          {paths[i], rank_classes(probabilities[int64_t(i - begin)], info.classes, options.top_k)});
    }
    begin = end;
  }
  return predictions;
}

}  // namespace tost
