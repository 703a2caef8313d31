// What the layers of an image classifier do on average over the pictures of a data set's split.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tost/data/dataset.h"
#include "tost/explain/layer_sums.h"
#include "tost/kinds/vision/explain_segmentation.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/torch.h"

namespace tost {

struct SplitStatistics {
  std::string split;
  int64_t pictures = 0, right = 0;  // right: whose likeliest class is theirs
  std::vector<LayerStatistics> layers;
  std::optional<Segmentation> segmentation;
};

struct StatisticsOptions {
  int64_t samples = 256;
  bool full = true;      // false: the compression curve and entropies alone
  bool bound = false;    // fill RateGap
  bool segment = false;  // the data has masks, and scores are wanted
  uint64_t seed = 0;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(int64_t done, int64_t total)> progress;
};

// Evenly spaced pictures of `data`, a batch at a time, in evaluation mode. Nothing when `stop`
// ended it. Deterministic. Throws a data Error for a picture that cannot be read.
std::optional<SplitStatistics> split_statistics(ImageClassifier& model, const ModelInfo& info,
                                                const ImageDataset& data, const std::string& split,
                                                const StatisticsOptions& options);

}  // namespace tost
