// Corrupts a picture, to measure the robustness of a classifier. Free of torch.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tost/io/image.h"

namespace tost {

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
