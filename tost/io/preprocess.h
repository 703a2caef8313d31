// Turns a decoded picture into a network's input, as in evaluation, and resamples 8-bit images with
// antialiasing, as Pillow's Image.resize does. Free of torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tost/io/image.h"

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

enum class Filter { kBilinear, kBicubic };

// The filter "bilinear" or "bicubic". Throws a usage Error, with the nearest name, for other names.
Filter filter_from_name(const std::string& name);

struct Box {
  int64_t x = 0;
  int64_t y = 0;
  int64_t width = 0;
  int64_t height = 0;
};

// Cuts `box` out of the image. Throws a usage Error unless `box` is within the image.
Image crop(const Image& image, const Box& box);

// Resizes in two passes, along rows and along columns, by a triangle or Keys cubic (a = -0.5)
// filter whose support grows with the reduction. Each pass rounds to 8 bits. The result was equal
// to Pillow 13's in every test; earlier versions differ by a few grey levels at hard edges for some
// sizes.
Image resize(const Image& image, int64_t width, int64_t height, Filter filter);

// Resizes crop(image, box) without a copy; pixels outside the box have no influence.
Image resize(const Image& image, const Box& box, int64_t width, int64_t height, Filter filter);

// Computes only the part of crop(resize(image, width, height, filter), part), bit for bit. Memory
// and time do not depend on width x height.
Image resize_part(const Image& image, int64_t width, int64_t height, const Box& part,
                  Filter filter);

}  // namespace tost
