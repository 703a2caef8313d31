#include "tost/kinds/vision/explain_statistics.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/explain/trace_on_cpu.h"
#include "tost/kinds/vision/explain_layers.h"
#include "tost/kinds/vision/explain_picture_input.h"
#include "tost/kinds/vision/explain_picture_maps.h"
#include "tost/kinds/vision/rates.h"

namespace tost {
namespace {

using torch::Tensor;

constexpr int64_t kBatch = 8;
constexpr int64_t kMostFeatures = int64_t{48} << 20;  // numbers kept for the segmentation scores

// Features of pictures with an object, in float32, as long as there is room.
class SegmentationSums {
 public:
  SegmentationSums(const ImageDataset& data, const ModelInfo& info) : data_(data), info_(info) {}

  void add(const VisionTrace& trace, const std::vector<int64_t>& indices) {
    for (size_t i = 0; i < indices.size(); ++i) add_picture(trace, indices[i], int64_t(i));
  }

  Segmentation result(uint64_t seed) const {
    Segmentation scores;
    scores.pictures = int64_t(truth_.size());
    scores.skipped = skipped_;
    double share = 0;
    for (const TokenMask& mask : truth_) share += double(area_of(mask)) / double(mask.size());
    scores.object_share = truth_.empty() ? std::nan("") : share / double(truth_.size());
    scores.average_object = score_average_object(truth_);
    for (const auto& samples : layers_) {
      scores.layers.push_back(score_layer(samples, truth_, info_.config.heads, seed));
    }
    scores.head = best_head(scores.layers);
    scores.k_means = best_k_means(scores.layers);
    return scores;
  }

 private:
  void add_picture(const VisionTrace& trace, int64_t index, int64_t in_batch) {
    TokenMask mask = object_tokens(data_, index, info_.preprocess, trace.rows, trace.columns);
    if (area_of(mask) == 0) {
      ++skipped_;
      return;
    }
    const int64_t patches = int64_t(mask.size());
    layers_.resize(trace.block_outputs.size());
    const int64_t numbers = int64_t(layers_.size()) * patches * 3 * info_.config.dim;
    if ((int64_t(truth_.size()) + 1) * numbers > kMostFeatures) return;
    truth_.push_back(std::move(mask));
    const auto kept = [&](const std::vector<Tensor>& traced, size_t layer, int64_t dim) {
      if (!traced[layer].defined()) return Tensor();
      return traced[layer][in_batch].narrow(dim, 0, patches).clone();
    };
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      layers_[layer].push_back({kept(trace.memberships, layer, 1),
                                kept(trace.projections, layer, 0),
                                kept(trace.block_outputs, layer, 0)});
    }
  }

  const ImageDataset& data_;
  const ModelInfo& info_;
  int64_t skipped_ = 0;
  std::vector<TokenMask> truth_;
  std::vector<std::vector<SegmentationSample>> layers_;  // [layer][picture]
};

Tensor read_batch(const ImageDataset& data, const std::vector<int64_t>& indices,
                  const Preprocess& preprocess, Tensor& labels) {
  std::vector<Tensor> images;
  labels = torch::empty({int64_t(indices.size())}, torch::kInt64);
  for (size_t i = 0; i < indices.size(); ++i) {
    images.push_back(dataset_picture(data, indices[i], preprocess).tensor);
    labels[int64_t(i)] = data.label(indices[i]);
  }
  return torch::stack(images);
}

LayerView view_of(const VisionTrace& trace, size_t layer) {
  return {.w = trace.projections[layer],
          .pi = trace.memberships[layer],
          .mixer_input = trace.mixer_inputs[layer],
          .mixer_output = trace.mixer_outputs[layer],
          .output = trace.block_outputs[layer],
          .registers = trace.registers};
}

}  // namespace

std::optional<SplitStatistics> split_statistics(ImageClassifier& model, const ModelInfo& info,
                                                const ImageDataset& data, const std::string& split,
                                                const StatisticsOptions& options) {
  if (options.samples < 1) fail_usage("--samples is ", options.samples, "; at least 1 is needed.");
  const torch::NoGradGuard no_grad;
  const auto indices = spaced_indices(data.size(), options.samples);
  std::vector<LayerSums> layers;
  for (const auto& block : blocks_of(model)) {
    layers.emplace_back(on_cpu(block->attn->subspaces()), options.full, options.bound);
  }
  SegmentationSums segmentation(data, info);
  SplitStatistics result;
  result.split = split;
  for (size_t begin = 0; begin < indices.size(); begin += kBatch) {
    const size_t end = std::min(indices.size(), begin + kBatch);
    const std::vector<int64_t> batch(indices.begin() + int64_t(begin),
                                     indices.begin() + int64_t(end));
    Tensor labels;
    VisionTrace trace;
    const auto logits =
        on_cpu(model.forward_traced(read_batch(data, batch, info.preprocess, labels), trace));
    result.pictures += int64_t(batch.size());
    result.right += (logits.argmax(1) == labels).sum().item<int64_t>();
    auto rates = layer_rates(model, trace, wanted_rates(options.full, options.bound));
    for (LayerRates& layer : rates) move_to_cpu(layer);
    move_to_cpu(trace);
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      layers[layer].add(view_of(trace, layer), rates[layer]);
    }
    if (options.segment) segmentation.add(trace, batch);
    if (options.progress) options.progress(result.pictures, int64_t(indices.size()));
    if (options.stop && options.stop->load()) return std::nullopt;
  }
  for (const LayerSums& layer : layers) result.layers.push_back(layer.result());
  if (options.segment) result.segmentation = segmentation.result(options.seed);
  return result;
}

}  // namespace tost
