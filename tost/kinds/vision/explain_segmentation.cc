// Scores memberships as segmentations, by comparing each head's mask with that of the picture's
// object.
#include <algorithm>

#include "tost/explain/measures.h"
#include "tost/kinds/vision/explain_report.h"

namespace tost {
namespace {

using torch::Tensor;

// Whether a picture selects heads: even indices select, odd ones score the selection.
constexpr bool chooses(size_t picture) {
  return picture % 2 == 0;
}

constexpr int64_t kMaxFitted = 20'000;  // tokens that the centres of k-means are fitted to

TokenMask as_mask(const Tensor& values) {
  const auto bytes = values.to(torch::kUInt8).contiguous();
  return {bytes.data_ptr<uint8_t>(), bytes.data_ptr<uint8_t>() + bytes.numel()};
}

TokenMask complement_of(TokenMask mask) {
  for (uint8_t& value : mask) value = value == 0;
  return mask;
}

// The masks of each group in each picture: [group][picture].
using GroupMasks = std::vector<std::vector<TokenMask>>;

GroupMasks masks_of_labels(const std::vector<Tensor>& labels, int64_t groups) {
  GroupMasks masks(static_cast<size_t>(groups));
  for (int64_t group = 0; group < groups; ++group) {
    for (const Tensor& of_picture : labels) {
      masks[size_t(group)].push_back(as_mask(of_picture == group));
    }
  }
  return masks;
}

double mean_iou(const std::vector<TokenMask>& masks, const std::vector<TokenMask>& truth,
                bool complement) {
  double sum = 0;
  int64_t count = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    if (!chooses(i)) continue;
    sum += intersection_over_union(complement ? complement_of(masks[i]) : masks[i], truth[i]);
    ++count;
  }
  return count > 0 ? sum / double(count) : 0;
}

MaskScore score(const std::vector<TokenMask>& masks, const std::vector<TokenMask>& truth,
                int64_t group, bool complement) {
  MaskScore result{.group = group, .complement = complement};
  std::vector<double> found, chance;
  for (size_t i = 0; i < truth.size(); ++i) {
    if (chooses(i)) continue;
    const TokenMask mask = complement ? complement_of(masks[i]) : masks[i];
    found.push_back(intersection_over_union(mask, truth[i]));
    chance.push_back(chance_iou(int64_t(mask.size()), area_of(mask), area_of(truth[i])));
  }
  const Spread spread = spread_of(found);
  result.chosen = mean_iou(masks, truth, complement);
  result.iou = spread.mean;
  result.deviation = spread.deviation;
  result.ious = std::move(found);
  result.chance = spread_of(chance).mean;
  return result;
}

MaskScore score_best(const GroupMasks& groups, const std::vector<TokenMask>& truth) {
  int64_t best = 0;
  bool best_complement = false;
  double best_iou = -1;
  for (const bool complement : {false, true}) {
    for (size_t group = 0; group < groups.size(); ++group) {
      const double iou = mean_iou(groups[group], truth, complement);
      if (iou <= best_iou) continue;
      best_iou = iou;
      best = int64_t(group);
      best_complement = complement;
    }
  }
  return score(groups[size_t(best)], truth, best + 1, best_complement);
}

MaskScore score_k_means(const std::vector<Tensor>& features, const std::vector<TokenMask>& truth,
                        int64_t clusters, uint64_t seed) {
  std::vector<Tensor> fitted;
  for (size_t i = 0; i < features.size(); ++i) {
    if (chooses(i)) fitted.push_back(features[i]);
  }
  auto points = torch::cat(fitted);
  const int64_t step = (points.size(0) + kMaxFitted - 1) / kMaxFitted;
  points = points.slice(0, 0, points.size(0), step);
  const KMeans means = k_means(points, {.clusters = clusters, .seed = seed});
  std::vector<Tensor> labels;
  for (const Tensor& of_picture : features) {
    labels.push_back(nearest_centers(of_picture, means.centers));
  }
  return score_best(masks_of_labels(labels, means.centers.size(0)), truth);
}

// The scores of one head's membership, on the selecting and on the scoring pictures.
struct Ratings {
  std::vector<double> auc[2], precision[2], negative_precision[2];
};

Ratings rate_head(const std::vector<Tensor>& pi, int64_t head,
                  const std::vector<TokenMask>& truth) {
  Ratings ratings;
  for (size_t i = 0; i < truth.size(); ++i) {
    const size_t half = chooses(i) ? 0 : 1;
    const auto scores = numbers_of(pi[i][head]);
    ratings.auc[half].push_back(roc_auc(scores, truth[i]));
    ratings.precision[half].push_back(average_precision(scores, truth[i]));
    ratings.negative_precision[half].push_back(
        average_precision(numbers_of(-pi[i][head]), truth[i]));
  }
  return ratings;
}

double mean_of_both(const std::vector<double> (&halves)[2]) {
  std::vector<double> all = halves[0];
  all.insert(all.end(), halves[1].begin(), halves[1].end());
  return spread_of(all).mean;
}

double mean_iou_of_all(const std::vector<TokenMask>& masks, const std::vector<TokenMask>& truth) {
  std::vector<double> values;
  for (size_t i = 0; i < truth.size(); ++i) {
    values.push_back(intersection_over_union(masks[i], truth[i]));
  }
  return spread_of(values).mean;
}

void score_heads(const std::vector<Tensor>& pi, const std::vector<TokenMask>& truth,
                 SegmentationLayer& layer) {
  const int64_t heads = pi[0].size(0);
  std::vector<Tensor> likeliest;
  GroupMasks soft(static_cast<size_t>(heads));
  for (const Tensor& of_picture : pi) {
    likeliest.push_back(of_picture.argmax(0));
    const auto above = of_picture > of_picture.mean(1, /*keepdim=*/true);
    for (int64_t head = 0; head < heads; ++head) soft[size_t(head)].push_back(as_mask(above[head]));
  }
  const GroupMasks hard = masks_of_labels(likeliest, heads);
  layer.hard = score_best(hard, truth);
  layer.soft = score_best(soft, truth);
  double best_distance = -1;
  for (int64_t head = 0; head < heads; ++head) {
    const Ratings ratings = rate_head(pi, head, truth);
    layer.heads.push_back({mean_iou_of_all(hard[size_t(head)], truth),
                           mean_iou_of_all(soft[size_t(head)], truth), mean_of_both(ratings.auc),
                           mean_of_both(ratings.precision)});
    const double chosen = spread_of(ratings.auc[0]).mean, distance = std::abs(chosen - 0.5);
    if (!(distance > best_distance)) continue;
    best_distance = distance;
    const bool negative = chosen < 0.5;
    const double scored = spread_of(ratings.auc[1]).mean;
    layer.auc_head = head + 1;
    layer.auc = negative ? 1 - scored : scored;
    layer.average_precision =
        spread_of(negative ? ratings.negative_precision[1] : ratings.precision[1]).mean;
  }
}

BestMask best_mask(const std::vector<SegmentationLayer>& layers,
                   MaskScore SegmentationLayer::*first, MaskScore SegmentationLayer::*second) {
  BestMask best;
  for (size_t i = 0; i < layers.size(); ++i) {
    for (const bool is_second : {false, true}) {
      const MaskScore& score = layers[i].*(is_second ? second : first);
      if (score.group == 0 || (best.layer > 0 && score.chosen <= best.score.chosen)) continue;
      best = {int64_t(i) + 1, is_second, score};
    }
  }
  return best;
}

}  // namespace

SegmentationLayer score_layer(const std::vector<SegmentationSample>& samples,
                              const std::vector<TokenMask>& truth, int64_t clusters,
                              uint64_t seed) {
  SegmentationLayer layer;
  if (truth.size() < 2) return layer;
  std::vector<Tensor> pi, w, z;
  for (const auto& sample : samples) {
    if (sample.pi.defined()) pi.push_back(sample.pi);
    if (sample.w.defined()) w.push_back(sample.w);
    if (sample.z.defined()) z.push_back(sample.z);
  }
  if (pi.size() == truth.size()) score_heads(pi, truth, layer);
  if (w.size() == truth.size()) layer.k_means_w = score_k_means(w, truth, clusters, seed);
  if (z.size() == truth.size()) layer.k_means_z = score_k_means(z, truth, clusters, seed);
  return layer;
}

BestMask best_head(const std::vector<SegmentationLayer>& layers) {
  return best_mask(layers, &SegmentationLayer::hard, &SegmentationLayer::soft);
}

BestMask best_k_means(const std::vector<SegmentationLayer>& layers) {
  return best_mask(layers, &SegmentationLayer::k_means_w, &SegmentationLayer::k_means_z);
}

Spread paired_difference(const MaskScore& first, const MaskScore& second) {
  if (first.ious.size() != second.ious.size()) return {};
  std::vector<double> differences;
  for (size_t i = 0; i < first.ious.size(); ++i) {
    differences.push_back(first.ious[i] - second.ious[i]);
  }
  return spread_of(differences);
}

MaskScore score_average_object(const std::vector<TokenMask>& truth) {
  if (truth.size() < 2) return {};
  std::vector<int64_t> counts(truth[0].size());
  int64_t pictures = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    if (!chooses(i)) continue;
    ++pictures;
    for (size_t token = 0; token < counts.size(); ++token) counts[token] += truth[i][token];
  }
  TokenMask average(counts.size());
  for (size_t token = 0; token < counts.size(); ++token) {
    average[token] = 2 * counts[token] >= pictures;
  }
  return score(std::vector<TokenMask>(truth.size(), average), truth, 1, false);
}

}  // namespace tost
