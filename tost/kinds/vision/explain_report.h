// All numbers of a report on an image classifier. The JSON of a report contains these numbers, and
// the page shows the JSON.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tost/explain/layer_sums.h"
#include "tost/explain/measures.h"
#include "tost/explain/report.h"
#include "tost/io/dataset.h"
#include "tost/kinds/vision/explain_picture_maps.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/torch.h"

namespace tost {

// Scores of memberships as masks of the object, next to scores of chance and k-means.
//
// A candidate mask has the tokens whose most likely head is k, or the tokens whose membership in k
// is above the mean over the picture. The complements of candidate masks are candidates, too. One
// half of the pictures selects the candidate with the highest mean intersection over union (IoU)
// with the object, and the other half scores the candidate. k-means has as many clusters as there
// are heads, with centres from the first half; clusters and complements are its candidates. The
// layer is selected in the same way, for heads and for k-means.
//
// The tokens of one picture in one layer.
struct SegmentationSample {
  torch::Tensor pi;  // memberships of the patches [H, N]; undefined: no heads to score
  torch::Tensor w;   // projected patches [N, C]; undefined without
  torch::Tensor z;   // block output [N, C]
};

// The selected candidate and its score on the other half.
struct MaskScore {
  int64_t group = 0;             // head or cluster, from 1; 0: no score
  bool complement = false;       // the mask is the complement of the group
  double chosen = std::nan("");  // IoU on the half that chose
  double iou = std::nan("");
  double deviation = std::nan("");  // over pictures
  std::vector<double> ious{};       // of each picture that scores
  double chance = std::nan("");     // masks of the same sizes, placed at random
};

struct HeadScore {
  double hard_iou = 0, soft_iou = 0;      // of most likely head; of membership above its mean
  double auc = 0, average_precision = 0;  // of the membership as a score; 0.5 is chance for auc
};

struct SegmentationLayer {
  std::vector<HeadScore> heads;  // means over all pictures
  MaskScore hard, soft;
  MaskScore k_means_w, k_means_z;
  // The AUC on the second half of the head with the best |auc - 1/2| on the first half, negated if
  // auc < 1/2.
  int64_t auc_head = 0;
  double auc = std::nan(""), average_precision = std::nan("");
};

// The candidate with the highest IoU on the first half over all layers; layer 0: none.
struct BestMask {
  int64_t layer = 0;
  bool second = false;  // of heads: membership above its mean; of k-means: on the output
  MaskScore score{};
};

struct Segmentation {
  int64_t pictures = 0;
  int64_t skipped = 0;       // pictures whose object fills no patch
  double object_share = 0;   // of all tokens: what "every token" scores, and chance precision
  MaskScore average_object;  // the tokens that hold the object in half of the first half's pictures
  std::vector<SegmentationLayer> layers;
  BestMask head, k_means;
};

// Scores the masks of a layer's pictures, which are in the order of `truth` and have the same
// number of tokens. All scores are NaN for fewer than two pictures with an object. `seed` is for
// k-means.
SegmentationLayer score_layer(const std::vector<SegmentationSample>& samples,
                              const std::vector<TokenMask>& truth, int64_t clusters, uint64_t seed);

BestMask best_head(const std::vector<SegmentationLayer>& layers);
BestMask best_k_means(const std::vector<SegmentationLayer>& layers);

// The mean and deviation, over pictures, of the difference of two scores, or NaN if one is missing.
Spread paired_difference(const MaskScore& first, const MaskScore& second);

// Scores, on the odd pictures, the mask of tokens where at least half of the even pictures have the
// object.
MaskScore score_average_object(const std::vector<TokenMask>& truth);

// Average effects of an image classifier's layers over the pictures of a split.
struct SplitStatistics {
  std::string split;
  int64_t pictures = 0, right = 0;  // right: whose most likely class is theirs
  std::vector<LayerStatistics> layers;
  std::optional<Segmentation> segmentation;
};

// A picture's row in the table of a report. Only the first few pictures are shown in full.
struct PictureSummary {
  std::string name, truth;
  RankedClass top;
  double entropy = std::nan("");  // mean over layers and tokens; NaN without memberships
};

// A panel that could not be made, and the reason.
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

struct VisionExplainOptions : DataReportOptions<ImageDataset> {
  std::vector<std::string> images;  // files; empty: a few of `held`
  int64_t shown = 8;                // pictures in full, at most; fewer where their maps are large
};

// Makes the report; returns nothing if `stop` ended it. Throws usage Errors for a layer or head
// that does not exist, for samples below 1, and if there are neither images nor data. Throws data
// Errors for pictures that cannot be read.
std::optional<VisionReport> explain_vision(const LoadedModel& loaded,
                                           const VisionExplainOptions& options);

// A report as JSON: every number of its page (docs/explain.md). Layers and heads are counted from
// 1; maps are [rows][columns]. Numbers that are not finite are null.
nlohmann::json to_json(const VisionReport& report);

}  // namespace tost
