// How well an image classifier names the pictures of a data set.
#pragma once

#include <atomic>
#include <functional>
#include <optional>

#include "tost/engine/class_scores.h"
#include "tost/engine/vision_file.h"
#include "tost/io/dataset.h"
#include "tost/io/image_ops.h"

namespace tost {

// What is asked of the scores of a classifier.
struct ScoreOptions {
  std::string split;  // empty: the kind's default
  int64_t batch = 0;  // 0: the kind's default
  bool per_class = false;
  Corruption corruption{"", 3};  // of pictures, once they have the model's size
  std::function<void(int64_t done, int64_t total, const char* what)> progress = [](int64_t, int64_t,
                                                                                   const char*) {};
  std::function<void(const std::string& sentence)> warn = [](const std::string&) {};
  const std::atomic<bool>* stop = nullptr;
};

// Scores the pictures of a split (default: test) in their order, which all threads read. Returns
// "model", "split", top1, top5, loss, images, seconds, images_per_s, and "corruption" and
// "per_class" if asked for; null if stopped. Throws a usage Error for impossible options and data
// of another number of classes, and the data Error of the first picture that cannot be read.
nlohmann::json score_pictures(const ModelInfo& info, const DataSpec& data,
                              const ScoreOptions& options, LogitsOf logits_of);

// Returns top1, top5, loss, images, seconds and images_per_s.
nlohmann::json picture_scores(const ClassScores& scores, double seconds);

}  // namespace tost
