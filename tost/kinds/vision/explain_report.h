// Everything a report on an image classifier says, as numbers; its JSON (explain_json.h) is made
// from this alone, and its page from the JSON.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tost/data/dataset.h"
#include "tost/explain/head_spectra.h"
#include "tost/explain/layer_sums.h"
#include "tost/kinds/vision/explain_picture_maps.h"
#include "tost/kinds/vision/explain_segmentation.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/torch.h"

namespace tost {

// What the layers of an image classifier do on average over the pictures of a data set's split.

struct SplitStatistics {
  std::string split;
  int64_t pictures = 0, right = 0;  // right: whose most likely class is theirs
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

// Pictures beyond the first few, which are shown in full.
struct PictureSummary {
  std::string name, truth;
  RankedClass top;
  double entropy = std::nan("");  // mean over layers and tokens; NaN without memberships
};

// A panel that could not be made, and what would make it.
struct LeftOut {
  std::string panel, reason;
};

struct VisionReport {
  ModelInfo info;
  std::string checkpoint;
  std::string data;  // "" none
  int64_t parameters = 0;
  std::vector<int64_t> layers, heads;  // those chosen, from 1
  std::vector<PictureMaps> pictures;
  std::vector<PictureSummary> others;
  std::vector<SplitStatistics> splits;  // training data first; panels of one split use the last
  std::vector<HeadSpectra> spectra;     // by layer; empty for mixers without subspaces
  bool bound = false;
  std::vector<LeftOut> left_out;
  std::string class_warning;  // where the data's class names are not the model's; "" where they are
};

struct VisionExplainOptions {
  std::vector<std::string> images;     // files; empty: a few of `held`
  std::vector<int64_t> layers, heads;  // from 1; empty: first, middle, last; all
  int64_t samples = 256;               // of each split
  bool bound = false;
  int64_t shown = 8;  // pictures in full, at most; fewer where their maps are large
  std::shared_ptr<const ImageDataset> train, held;  // either may be missing
  std::string held_split;                           // its name: "validation", "test"
  std::string data;                                 // what to call the data
  std::string no_data;  // why there is none and how to get it; "" where there is
  const std::atomic<bool>* stop = nullptr;
  std::function<void(int64_t done, int64_t total, const std::string& what)> progress;
};

inline constexpr int64_t kPicturesFromData = 4;

// Nothing when `stop` ended it. Deterministic. Usage Errors for a layer or head that does not
// exist, samples below 1, and neither images nor data; data Errors for pictures that cannot be
// read.
std::optional<VisionReport> explain_vision(const LoadedModel& loaded,
                                           const VisionExplainOptions& options);

}  // namespace tost
