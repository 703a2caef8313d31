#include "tost/kinds/vision/explain_picture_maps.h"

#include <algorithm>

#include "tost/explain/layer_sums.h"
#include "tost/explain/measures.h"

namespace tost {
namespace {

using torch::Tensor;

// The entry of the only picture in the batch; undefined for an undefined tensor.
Tensor of_picture(const Tensor& traced) {
  return traced.defined() ? traced[0].to(torch::kDouble) : traced;
}

PictureLayer layer_of(const VisionTrace& trace, size_t index) {
  const int64_t patches = trace.rows * trace.columns;
  PictureLayer layer;
  if (const Tensor pi = of_picture(trace.blocks[index].mixer.pi); pi.defined()) {
    layer.memberships = pi.narrow(1, 0, patches);
    layer.likeliest = layer.memberships.argmax(0);
    layer.entropy = membership_entropy(layer.memberships);
  }
  const Tensor norms = of_picture(trace.blocks[index].output).norm(2, 1);
  layer.norms = norms.narrow(0, 0, patches);
  layer.register_norms = norms.narrow(0, patches, trace.registers);
  return layer;
}

}  // namespace

PictureMaps picture_maps(ImageClassifier& model, const ModelInfo& info, PictureInput input) {
  const torch::NoGradGuard no_grad;
  VisionTrace trace;
  const auto logits = model.forward_traced(input.tensor.unsqueeze(0), trace);
  const auto rates =
      layer_rates(model, trace.blocks, {.released = false, .theory = false, .objective = false});
  move_to_cpu(trace);
  PictureMaps maps;
  maps.input = std::move(input);
  maps.top = rank_classes(on_cpu(logits[0]).to(torch::kDouble).softmax(0), info.classes, 3);
  maps.rows = trace.rows;
  maps.columns = trace.columns;
  for (size_t i = 0; i < trace.blocks.size(); ++i) {
    maps.layers.push_back(layer_of(trace, i));
    if (!rates[i].defined()) continue;
    maps.layers[i].compression_before = rates[i].compression_before.item<double>();
    maps.layers[i].compression_after = rates[i].compression_after.item<double>();
  }
  for (const Tensor& weights : trace.class_attention) {
    const auto shares = weights[0].to(torch::kDouble);  // [H, 1 + N]
    maps.class_on_itself.push_back(shares.select(1, 0));
    maps.class_attention.push_back(shares.narrow(1, 1, shares.size(1) - 1));
  }
  return maps;
}

void move_to_cpu(VisionTrace& trace) {
  trace.stem_output = on_cpu(trace.stem_output);
  for (BlockTrace& block : trace.blocks) move_to_cpu(block);
  trace.class_attention = on_cpu(std::move(trace.class_attention));
}

PictureInput picture_input(const Image& image, const Preprocess& preprocess) {
  PictureInput input;
  input.width = image.width;
  input.height = image.height;
  input.seen = fit_image(image, preprocess);
  input.resized = input.seen.width != image.width || input.seen.height != image.height;
  input.tensor = torch::empty({preprocess.channels, preprocess.size, preprocess.size});
  Normalizer{preprocess}(input.seen, input.tensor.data_ptr<float>());
  return input;
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
