// From a decoded picture to a network's input, as evaluation does it. Free of torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tost/data/dataset.h"
#include "tost/io/resize.h"

namespace tost {

// Everything prediction needs to know; stored in the model file.
struct Preprocess {
  int64_t size = 32;     // side of the square input, in pixels
  int64_t channels = 3;  // 1 or 3; pictures are converted
  // "crop": the shorter side becomes floor(size / crop_ratio), then the central square is taken
  // (ImageNet habit; 1 keeps the full crop). "squeeze": both sides become `size`, the aspect ratio
  // is lost (the official fine-tuning's test transform).
  std::string resize = "crop";
  double crop_ratio = 1.0;
  std::string interpolation = "bicubic";
  // The input is (value / 255 - mean) / std per channel. Empty: 0 and 1.
  std::vector<double> mean;
  std::vector<double> std;
};

// A usage Error for impossible values (sizes, channels, names, lengths, std of 0).
void check_preprocess(const Preprocess& preprocess);

// The 8-bit picture of size x size x channels the network will see.
Image fit_image(const Image& image, const Preprocess& preprocess);

// Turns bytes into floats by a table. Deterministic.
class Normalizer {
 public:
  explicit Normalizer(const Preprocess& preprocess);
  // image: size x size x channels. to: [channels, size, size].
  void operator()(const Image& image, float* to) const;

 private:
  int64_t channels_;
  std::vector<float> table_;  // [channels, 256]
};

struct ChannelStats {
  std::vector<double> mean;
  std::vector<double> std;
};

// ImageNet's constants; for 1 channel the means of the three.
ChannelStats imagenet_stats(int64_t channels);

// ImageNet's constants for folders of photographs (as official recipes do); for every other format
// the statistics of up to 10,000 evenly spaced training pictures. `train` must be the training
// split. Deterministic.
ChannelStats channel_stats(const ImageDataset& train, int64_t channels);

}  // namespace tost
