// Pathfinder (Linsley et al., 2018; arXiv 1805.08315): two discs, dashed contours, and whether one
// contour joins the discs. Sizes and contrasts are those of the Long Range Arena (arXiv
// 2011.04006), 128 pixels a side its Path-X. Free of torch.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "tost/base/random.h"
#include "tost/io/image.h"

namespace tost {

// Lengths are pixels; a contour is a chain of straight dashes ("paddles").
struct PathfinderRules {
  int64_t side = 32;
  int64_t padding = 1;            // border that target contours keep out of
  int64_t contour_length = 14;    // dashes of both target contours
  int64_t distractor_length = 4;  // dashes of the others
  int64_t distractors = 5;
  int64_t dash_length = 2;
  std::vector<int64_t> gaps = {1};  // half the gap between dashes, one drawn a picture
  double thickness = 0.5;
  double continuity = 1.0;    // larger: straighter
  int64_t seed_distance = 7;  // between the beginnings of both target contours
  double marker_radius = 1.5;
  double target_contrast = 1.5;
  double distractor_contrast = 2.0;
};

// Sides 32, 64, 128 and 256 as the benchmark sets them, contours of 3 to 20 dashes (6 easy, 9
// intermediate, 14 hard), distractors a third as long. Throws a usage Error for others.
PathfinderRules pathfinder_rules(int64_t side, int64_t contour_length);

struct PathfinderPicture {
  Image image;                                      // grey, the brightest pixel 255
  int64_t label = 0;                                // 1: one contour joins the discs
  std::array<std::array<int64_t, 2>, 2> markers{};  // row, column of both discs
};

struct PathfinderStamps;

// Draws pictures of one set of rules. Immutable; usable from several threads at once.
class PathfinderArtist {
 public:
  explicit PathfinderArtist(const PathfinderRules& rules);
  ~PathfinderArtist();

  const PathfinderRules& rules() const { return rules_; }
  // A pure function of the generator's state. Throws a usage Error where the contours of the rules
  // find no room on the picture.
  PathfinderPicture draw(Random random) const;
  // The label that draw() will give.
  static int64_t label(Random random) { return random.below(2); }

 private:
  PathfinderRules rules_;
  std::vector<std::unique_ptr<const PathfinderStamps>> stamps_;  // one a gap
};

}  // namespace tost
