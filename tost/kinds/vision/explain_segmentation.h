// Do memberships find the object? Scores against known masks, with those of chance and k-means.
//
// A candidate mask is "the tokens whose most likely head is k", "the tokens whose membership in k
// is above its mean over the picture", or the complement of either (a head may well stand for the
// background). The candidate is chosen on one half of the pictures, by its mean intersection over
// union (IoU) with the object, and scored on the other half. k-means has as many clusters as there
// are heads, its centres come from the first half too, and its clusters and their complements are
// candidates by the same rule. The layer is chosen like the candidate, so that the best of the
// heads and the best of k-means meet on equal terms.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tost/explain/measures.h"
#include "tost/torch.h"

namespace tost {

// One picture's tokens in one layer.
struct SegmentationSample {
  torch::Tensor pi;  // memberships of the patches [H, N]; undefined: no heads to score
  torch::Tensor w;   // projected patches [N, C]; undefined without
  torch::Tensor z;   // block output [N, C]
};

// The chosen candidate and its score on the other half.
struct MaskScore {
  int64_t group = 0;             // head or cluster, from 1; 0: no score
  bool complement = false;       // the mask is what the group leaves out
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
  // The best head (by |auc - 1/2| on the first half; negated where auc < 1/2) on the second.
  int64_t auc_head = 0;
  double auc = std::nan(""), average_precision = std::nan("");
};

// The candidate of the highest IoU on the first half, over all layers; layer 0: none.
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

// Masks of one layer's pictures in the order of `truth`; all of one token count. Fewer than two
// pictures with an object: everything NaN. Deterministic in `seed`.
SegmentationLayer score_layer(const std::vector<SegmentationSample>& samples,
                              const std::vector<TokenMask>& truth, int64_t clusters, uint64_t seed);

BestMask best_head(const std::vector<SegmentationLayer>& layers);
BestMask best_k_means(const std::vector<SegmentationLayer>& layers);

// Mean and deviation over pictures of the first score less the second; NaN where either is missing.
Spread paired_difference(const MaskScore& first, const MaskScore& second);

// The tokens where at least half of the even pictures have the object, scored on the odd ones.
MaskScore score_average_object(const std::vector<TokenMask>& truth);

}  // namespace tost
