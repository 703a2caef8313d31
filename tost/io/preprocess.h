// Turns a decoded picture into a network's input, as in evaluation. Free of torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tost/io/resize.h"

namespace tost {

// The settings of preprocessing, which the model file stores for prediction.
struct Preprocess {
  int64_t size = 32;     // side of the square input, in pixels
  int64_t channels = 3;  // 1 or 3; pictures are converted
  // "crop" scales the shorter side to floor(size / crop_ratio) and takes the central square.
  // "squeeze" scales both sides to `size`, as the official fine-tuning's test does.
  std::string resize = "crop";
  double crop_ratio = 1.0;
  std::string interpolation = "bicubic";
  // The input is (value / 255 - mean) / std in each channel; an empty mean is 0, an empty std is 1.
  std::vector<double> mean;
  std::vector<double> std;
};

// Throws a usage Error for impossible sizes, channels, names or lengths, or a std of 0.
void check_preprocess(const Preprocess& preprocess);

// Resizes and crops to the network's 8-bit picture of size x size x channels.
Image fit_image(const Image& image, const Preprocess& preprocess);

// Converts bytes to normalised floats by a table.
class Normalizer {
 public:
  explicit Normalizer(const Preprocess& preprocess);
  // Converts an image of size x size x channels to floats [channels, size, size].
  void operator()(const Image& image, float* to) const;

 private:
  int64_t channels_;
  std::vector<float> table_;  // [channels, 256]
};

struct ChannelStats {
  std::vector<double> mean;
  std::vector<double> std;
};

// ImageNet's constants; for 1 channel the means over the three channels.
ChannelStats imagenet_stats(int64_t channels);

}  // namespace tost
