#include "tost/kinds/vision/evaluate.h"

#include <chrono>
#include <utility>

#include "tost/base/error.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/vision/image_runner.h"
#include "tost/nn/evaluation_mode.h"
#include "tost/nn/metrics.h"

namespace tost {
namespace {

using Clock = std::chrono::steady_clock;

EvalResult result_of(const ClassificationMeter& meter, double seconds) {
  return {.top1 = meter.top1(),
          .top5 = meter.top5(),
          .loss = meter.loss(),
          .images = meter.images(),
          .seconds = seconds,
          .images_per_s = seconds > 0 ? double(meter.images()) / seconds : 0,
          .confusion = meter.confusion()};
}

}  // namespace

std::optional<EvalResult> evaluate(ImageClassifier& model, ImageLoader& loader,
                                   const EvalOptions& options) {
  const int64_t classes = model.config().classes;
  if (int64_t(loader.dataset().classes().size()) != classes) {
    fail_usage("The data has ", loader.dataset().classes().size(), " classes but the model has ",
               classes, "; evaluate it on the data it was trained for, or fine-tune it.");
  }
  const torch::InferenceMode no_grad;
  const EvaluationMode mode(model);
  ImageRunner runner(model, options.precision, options.engine);
  const auto start = Clock::now();
  ClassificationMeter meter(classes);
  bool begun = false, stopped = false;
  const auto next = [&] {
    return read_watched(options.read_guard, [&loader, first = !std::exchange(begun, true)] {
      if (first) loader.start_epoch(0);
      return loader.next();
    });
  };
  while (const std::optional<Batch> batch = next()) {
    meter.add(runner.logits(batch->images), batch->labels);
    if (options.progress) options.progress(meter.images(), loader.images_per_epoch());
    stopped = options.stop && options.stop->load();
    if (stopped) break;
  }
  if (!meter.add_up(options.group, stopped)) return std::nullopt;
  return result_of(meter, std::chrono::duration<double>(Clock::now() - start).count());
}

nlohmann::json to_json(const EvalResult& r) {
  return TOST_MEMBERS(r, top1, top5, loss, images, seconds, images_per_s);
}

}  // namespace tost
