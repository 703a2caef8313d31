#include "tost/kinds/vision/explain_report.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/kinds/vision/image_classifier.h"
#include "tost/kinds/vision/transformer.h"
#include "tost/nn/block.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/arrays.h"

namespace tost {
namespace {

using torch::Tensor;

constexpr int64_t kPicturesFromData = 4;
constexpr int64_t kBatch = 8;
constexpr int64_t kMaxFeatures = int64_t{48} << 20;  // numbers stored for the segmentation scores

// Collects features of pictures with an object, in float32, up to a memory limit.
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
    layers_.resize(trace.blocks.size());
    const int64_t numbers = int64_t(layers_.size()) * patches * 3 * info_.config.dim;
    if ((int64_t(truth_.size()) + 1) * numbers > kMaxFeatures) return;
    truth_.push_back(std::move(mask));
    const auto by_row = [&](const Tensor& traced, int64_t dim) {
      return traced.defined() ? traced[in_batch].narrow(dim, 0, patches).clone() : Tensor();
    };
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      const BlockTrace& seen = trace.blocks[layer];
      layers_[layer].push_back(
          {by_row(seen.mixer.pi, 1), by_row(seen.mixer.w, 0), by_row(seen.output, 0)});
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
    images.push_back(tensor_of(dataset_picture(data, indices[i], preprocess).values));
    labels[int64_t(i)] = data.label(indices[i]);
  }
  return torch::cat(images);
}

struct StatisticsOptions : ReportOptions {
  bool full = true;      // false: only the compression curve and entropies
  bool segment = false;  // the data has masks, and scores are wanted
  uint64_t seed = 0;
};

// Averages over evenly spaced pictures of `data`, in evaluation mode. Returns nothing if `stop`
// ended it. Throws a data Error for a picture that cannot be read.
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
    auto rates = layer_rates(model, trace.blocks, wanted_rates(options.full, options.bound));
    for (LayerRates& layer : rates) move_to_cpu(layer);
    move_to_cpu(trace);
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      layers[layer].add(trace.blocks[layer], rates[layer], trace.registers);
    }
    if (options.segment) segmentation.add(trace, batch);
    options.note(result.pictures, int64_t(indices.size()), split + " pictures");
    if (options.stopped()) return std::nullopt;
  }
  for (const LayerSums& layer : layers) result.layers.push_back(layer.result());
  if (options.segment) result.segmentation = segmentation.result(options.seed);
  return result;
}

PictureSummary summary_of(const PictureMaps& maps) {
  PictureSummary summary{maps.input.name, maps.input.truth, maps.top.front()};
  std::vector<double> entropies;
  for (const PictureLayer& layer : maps.layers) {
    entropies.push_back(spread_of(membership_entropy(layer.memberships)).mean);
  }
  summary.entropy = spread_of(entropies).mean;
  return summary;
}

// The origin of the pictures: files, or evenly spaced pictures of the data.
struct PictureSource {
  int64_t count = 0;
  std::function<PictureInput(int64_t)> read;
};

PictureSource picture_source(const ModelInfo& info, const VisionExplainOptions& o) {
  if (!o.images.empty()) {
    return {int64_t(o.images.size()),
            [&](int64_t i) { return read_picture(o.images[size_t(i)], info.preprocess); }};
  }
  const auto data = o.held ? o.held : o.train;
  if (!data) {
    fail_usage("There is no picture to explain: give image files, or --data with the data set. ",
               o.no_data);
  }
  const auto indices = spaced_indices(data->size(), std::min(kPicturesFromData, o.shown));
  return {int64_t(indices.size()), [data, indices, &info](int64_t i) {
            return dataset_picture(*data, indices[size_t(i)], info.preprocess);
          }};
}

constexpr int64_t kMapNumbers = 1'500'000;  // of all pictures; about 18 MB of text

int64_t map_numbers(const PictureMaps& maps) {
  int64_t numbers = 1;
  for (const PictureLayer& layer : maps.layers) {
    numbers += int64_t((layer.memberships.size() + 3) * layer.norms.size());
  }
  for (const auto& heads : maps.class_attention) {
    numbers += int64_t(heads.size()) * maps.rows * maps.columns;
  }
  return numbers;
}

bool add_pictures(VisionReport& report, ImageClassifier& model, const VisionExplainOptions& o) {
  const PictureSource source = picture_source(report.info, o);
  int64_t shown = o.shown;
  for (int64_t i = 0; i < source.count; ++i) {
    if (o.stopped()) return false;
    PictureMaps maps = picture_maps(model, report.info, source.read(i));
    if (i == 0) shown = std::min(shown, std::max<int64_t>(1, kMapNumbers / map_numbers(maps)));
    if (i < shown) {
      report.pictures.push_back(std::move(maps));
    } else {
      report.others.push_back(summary_of(maps));
    }
    o.note(i + 1, source.count, "pictures");
  }
  return true;
}

bool add_split(VisionReport& report, ImageClassifier& model, const ImageDataset& data,
               const std::string& split, bool full, const VisionExplainOptions& o) {
  StatisticsOptions wanted{o, full, full && data.has_mask() && !report.spectra.empty()};
  wanted.bound = full && o.bound;
  auto statistics = split_statistics(model, report.info, data, split, wanted);
  if (!statistics) return false;
  report.splits.push_back(std::move(*statistics));
  return true;
}

void add_spectra(VisionReport& report, const ImageClassifier& model) {
  for (const auto& block : blocks_of(model)) {
    const auto u = block->attn->subspaces();
    if (!u.defined()) return;
    report.spectra.push_back(head_spectra(on_cpu(u)));
  }
}

void note_mixer(VisionReport& report) {
  const VisionConfig& config = report.info.config;
  if (config.architecture == "linear") {
    report.left_out.push_back(
        {"Layers", "The linear model has no layers and no tokens: predictions are all there is."});
  } else if (report.spectra.empty()) {
    report.left_out.push_back(
        {cat("Memberships, compression, correlations, spectra", report.bound ? ", bound" : ""),
         cat("Layers of the mixer '", config.mixer,
             "' have neither memberships nor head subspaces; class attention and token norms "
             "remain. Train with --mixer tssa to see them.")});
  } else if (config.mixer == "uniform") {
    report.left_out.push_back({"Differences between heads' memberships",
                               cat("The mixer uniform fixes every membership to 1/H, here 1/",
                                   config.heads, ": the maps are flat by construction.")});
  }
}

}  // namespace

std::optional<VisionReport> explain_vision(const LoadedModel& loaded,
                                           const VisionExplainOptions& o) {
  const VisionConfig& config = loaded.info.config;
  const bool linear = config.architecture == "linear";
  if (o.samples < 1) fail_usage("--samples is ", o.samples, "; at least 1 is needed.");
  VisionReport report;
  for (const auto* data : {&o.train, &o.held}) {
    if (*data == nullptr) continue;
    check_class_count((*data)->classes().size(), loaded.info.classes.size(), o.data);
    const auto others = other_class_names((*data)->classes(), loaded.info.classes, o.data);
    if (!others.empty()) report.class_warning = cat("The ", others, ".");
  }
  report.info = loaded.info;
  report.checkpoint = loaded.file.string();
  report.data = o.data;
  report.bound = o.bound;
  const int64_t depth = linear ? 0 : config.depth;
  report.layers = choose_numbers(o.layers, depth, "layer");
  if (o.layers.empty()) report.layers = spread_numbers(depth, 3);
  report.heads = choose_numbers(o.heads, linear ? 0 : config.heads, "head");
  report.parameters = parameter_count(*loaded.model);
  add_spectra(report, *loaded.model);
  note_mixer(report);
  if (!o.no_data.empty()) {
    report.left_out.push_back({"Statistics over data", o.no_data});
  }
  if (!add_pictures(report, *loaded.model, o)) return std::nullopt;
  const bool both = o.train && o.held;
  if (o.train && !add_split(report, *loaded.model, *o.train, "train", !both, o)) {
    return std::nullopt;
  }
  if (o.held && !add_split(report, *loaded.model, *o.held, o.held_split, true, o)) {
    return std::nullopt;
  }
  return report;
}

}  // namespace tost
