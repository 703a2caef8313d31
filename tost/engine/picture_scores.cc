#include "tost/engine/picture_scores.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/engine/threads.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

// Reads pictures begin, begin + 1, ... as inputs of the network [labels.size(), channels, S, S].
void read_pictures(const ImageDataset& pictures, int64_t begin, const Preprocess& p,
                   const Normalizer& normalize, const Corruption& corruption, float* to,
                   std::vector<int64_t>& labels) {
  std::vector<std::exception_ptr> failures(labels.size());
  parallel_tasks(int64_t(labels.size()), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      try {
        const Image fitted = fit_image(pictures.image(begin + i), p);
        normalize(corrupt(fitted, corruption, /*seed=*/0, begin + i),
                  to + i * p.channels * p.size * p.size);
        labels[size_t(i)] = pictures.label(begin + i);
      } catch (...) {
        failures[size_t(i)] = std::current_exception();
      }
    }
  });
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace

nlohmann::json picture_scores(const ClassScores& scores, double seconds) {
  return {
      {"top1", scores.top1()}, {"top5", scores.top5()},
      {"loss", scores.loss()}, {"images", scores.count},
      {"seconds", seconds},    {"images_per_s", seconds > 0 ? double(scores.count) / seconds : 0}};
}

nlohmann::json score_pictures(const ModelInfo& info, const DataSpec& data,
                              const ScoreOptions& options, LogitsOf logits_of) {
  if (options.corruption.active()) check_corruption(options.corruption);
  const std::string split = options.split.empty() ? "test" : options.split;
  const auto pictures = open_image_dataset(data, split);
  if (pictures->size() < 1) fail_data("The data set holds no picture to load.");
  check_class_count(pictures->classes().size(), info.classes.size(), data.path);
  const std::string others = other_class_names(pictures->classes(), info.classes, data.path);
  if (!others.empty()) options.warn("the " + others);
  const Preprocess& p = info.preprocess;
  const Normalizer normalize(p);
  const int64_t batch = std::min(options.batch == 0 ? 100 : options.batch, pictures->size());
  checked_mul(batch, p.channels * p.size * p.size * 4, "A batch of images");
  Array images = Array::empty({batch, p.channels, p.size, p.size});
  Array logits = Array::empty({batch, info.config.classes});
  const auto start = std::chrono::steady_clock::now();
  ClassScores scores(info.config.classes);
  while (scores.count < pictures->size()) {
    std::vector<int64_t> labels(size_t(std::min(batch, pictures->size() - scores.count)));
    const auto rows = int64_t(labels.size());
    read_pictures(*pictures, scores.count, p, normalize, options.corruption, images.mutable_data(),
                  labels);
    logits_of(images.data(), rows, logits.mutable_data());
    scores.add(logits.data(), labels.data(), rows);
    options.progress(scores.count, pictures->size(), "images scored");
    if (options.stop != nullptr && options.stop->load()) return nullptr;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  nlohmann::json report = picture_scores(scores, seconds.count());
  report.update({{"model", info.config.name}, {"split", split}});
  if (options.corruption.active())
    report["corruption"] = TOST_MEMBERS(options.corruption, kind, strength);
  if (options.per_class) report["per_class"] = class_rows(scores, info.classes, "images");
  return report;
}

}  // namespace tost
