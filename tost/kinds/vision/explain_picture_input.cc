#include "tost/kinds/vision/explain_picture_input.h"

#include <algorithm>

namespace tost {

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
