// The picture operations of colour jitter and RandAugment. Results agree with Pillow's
// ImageEnhance, ImageOps and Image.transform within one grey level. Size and channels stay. Free of
// torch. And the corruptions by which the robustness of a classifier is measured.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tost/io/image.h"
#include "tost/io/preprocess.h"

namespace tost {

Image flip_horizontal(const Image& image);

// A factor of 1 changes nothing; 0 gives a black / mean grey / greyscale / smoothed picture;
// factors above 1 exaggerate.
Image adjust_brightness(const Image& image, double factor);
Image adjust_contrast(const Image& image, double factor);
Image adjust_color(const Image& image, double factor);  // no change of grey pictures
Image adjust_sharpness(const Image& image, double factor);

Image auto_contrast(const Image& image);  // stretches each channel to 0..255
Image equalize(const Image& image);       // flattens each channel's histogram
Image invert(const Image& image);
Image posterize(const Image& image, int bits);       // keeps the highest `bits` bits, 0..8
Image solarize(const Image& image, int threshold);   // inverts values at or above
Image solarize_add(const Image& image, int addend);  // adds to values below 128

// Reads the output pixel with centre (x, y) at (m0 x + m1 y + m2, m3 x + m4 y + m5) of the input,
// bilinear or bicubic without antialiasing. Pixels outside of the input are `fill`, one value for
// each channel.
Image affine(const Image& image, const std::array<double, 6>& m, Filter filter,
             const std::vector<uint8_t>& fill);
Image rotate(const Image& image, double degrees, Filter filter,
             const std::vector<uint8_t>& fill);  // counter-clockwise

inline constexpr int64_t kCorruptionStrengths = 5;

// The parameters of each strength. Lengths are shares of the picture's side, so that the effect
// does not depend on the size. The first entry is strength 1.
//   noise      Gaussian noise of this deviation, for values of 0 ... 1
//   blur       Gaussian blur of this deviation, mirrored at the borders
//   occlusion  a mid-grey square of this side at a random place inside the picture
//   contrast   this share of every pixel's distance to the mean luma is left
inline constexpr std::array<double, 5> kNoiseDeviation{0.04, 0.08, 0.12, 0.18, 0.26};
inline constexpr std::array<double, 5> kBlurDeviation{0.0125, 0.025, 0.0375, 0.05, 0.075};
inline constexpr std::array<double, 5> kOcclusionSide{0.2, 0.3, 0.4, 0.5, 0.6};
inline constexpr std::array<double, 5> kContrastLeft{0.7, 0.5, 0.35, 0.2, 0.1};

// "noise", "blur", "occlusion", "contrast".
const std::vector<std::string>& corruption_kinds();

struct Corruption {
  std::string kind;      // empty: none
  int64_t strength = 0;  // 1 ... kCorruptionStrengths

  bool active() const { return !kind.empty(); }
  bool operator==(const Corruption&) const = default;
};

// Throws a usage Error for an unknown kind (with the nearest one) or strength.
void check_corruption(const Corruption& corruption);

// Returns the corrupted picture, of the same size and channels. Noise and the square's place depend
// only on (seed, index), so that a stronger corruption has the same pattern. An inactive corruption
// changes nothing.
Image corrupt(const Image& image, const Corruption& corruption, uint64_t seed, int64_t index);

}  // namespace tost
