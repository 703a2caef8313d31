#include "tost/kinds/vision/explain_picture_maps.h"

#include <algorithm>

#include "tost/explain/layer_sums.h"
#include "tost/ops/arrays.h"

namespace tost {
namespace {

using torch::Tensor;

TracedBlock::ByHead by_head(const Tensor& traced, int64_t count) {
  TracedBlock::ByHead heads;
  for (int64_t h = 0; traced.defined() && h < traced.size(1); ++h) {
    heads.push_back(numbers_of(traced[0][h].narrow(0, 0, count)));
  }
  return heads;
}

}  // namespace

PictureMaps picture_maps(ImageClassifier& model, const ModelInfo& info, PictureInput input) {
  const torch::NoGradGuard no_grad;
  VisionTrace trace;
  const auto logits = model.forward_traced(tensor_of(input.values), trace);
  const auto rates =
      layer_rates(model, trace.blocks, {.released = false, .theory = false, .objective = false});
  move_to_cpu(trace);
  PictureMaps maps{.input = std::move(input), .rows = trace.rows, .columns = trace.columns};
  maps.top = rank_classes(on_cpu(logits[0]).to(torch::kDouble).softmax(0), info.classes, 3);
  const int64_t patches = trace.rows * trace.columns;
  for (size_t i = 0; i < trace.blocks.size(); ++i) {
    const auto norms = trace.blocks[i].output[0].to(torch::kDouble).norm(2, 1);
    maps.layers.push_back({by_head(trace.blocks[i].mixer.pi, patches),
                           numbers_of(norms.narrow(0, 0, patches)),
                           numbers_of(norms.narrow(0, patches, trace.registers))});
    if (!rates[i].defined()) continue;
    maps.layers[i].compression_before = rates[i].compression_before.item<double>();
    maps.layers[i].compression_after = rates[i].compression_after.item<double>();
  }
  for (const Tensor& weights : trace.class_attention) {
    maps.class_attention.push_back(by_head(weights, 1 + patches));
  }
  return maps;
}

void move_to_cpu(VisionTrace& trace) {
  trace.stem_output = on_cpu(trace.stem_output);
  for (BlockTrace& block : trace.blocks) move_to_cpu(block);
  trace.class_attention = on_cpu(std::move(trace.class_attention));
}

PictureInput read_picture(const std::string& path, const Preprocess& preprocess) {
  PictureInput input = picture_input(read_image(path), preprocess);
  input.name = path;
  return input;
}

PictureInput dataset_picture(const ImageDataset& data, int64_t index,
                             const Preprocess& preprocess) {
  PictureInput input = picture_input(data.image(index), preprocess);
  input.name = data.name(index);
  input.truth = data.classes()[size_t(data.label(index))];
  return input;
}

std::vector<int64_t> spaced_indices(int64_t size, int64_t count) {
  const int64_t used = std::min(size, count);
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < used; ++i) indices.push_back(i * size / used);
  return indices;
}

TokenMask object_tokens(const ImageDataset& data, int64_t index, const Preprocess& preprocess,
                        int64_t rows, int64_t columns) {
  Image mask = data.mask(index);
  const auto object = uint8_t(data.label(index) + 1);
  for (uint8_t& pixel : mask.pixels) pixel = pixel == object ? 255 : 0;
  Preprocess grey = preprocess;
  grey.channels = 1;
  grey.interpolation = "bilinear";
  const Image seen = fit_image(mask, grey);
  TokenMask tokens(size_t(rows * columns));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t top = row * seen.height / rows, bottom = (row + 1) * seen.height / rows;
      const int64_t left = column * seen.width / columns;
      const int64_t right = (column + 1) * seen.width / columns;
      int64_t inside = 0;
      for (int64_t y = top; y < bottom; ++y) {
        inside += std::count_if(seen.row(y) + left, seen.row(y) + right,
                                [](uint8_t value) { return value >= 128; });
      }
      tokens[size_t(row * columns + column)] = 2 * inside >= (bottom - top) * (right - left);
    }
  }
  return tokens;
}

}  // namespace tost
