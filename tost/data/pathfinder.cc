#include "tost/data/pathfinder.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/data/pathfinder_scene.h"

namespace tost {
namespace {

constexpr int kDistractorTries = 5;

// Both target contours, dash by dash in turn; false where one finds no room.
bool draw_targets(const PathfinderRules& rules, Scene& scene, Random& random, Tip (&tips)[2]) {
  const double contrast = rules.target_contrast;
  if (!scene.begin(true, contrast, random, tips[0])) return false;
  if (!scene.begin_beside(tips[0], contrast, random, tips[1])) return false;
  for (int64_t k = 1; k < rules.contour_length; ++k) {
    for (Tip& tip : tips) {
      if (!scene.extend(tip, contrast, random)) return false;
    }
  }
  scene.take(tips[1]);  // the reference leaves the room of the first one's last dash free
  return true;
}

bool draw_distractor(const PathfinderRules& rules, Scene& scene, Random& random) {
  if (scene.nearly_full()) return false;
  Tip tip;
  const double contrast = rules.distractor_contrast;
  if (!scene.begin(false, contrast, random, tip)) return false;
  for (int64_t k = 1; k < rules.distractor_length; ++k) {
    if (!scene.extend(tip, contrast, random)) return false;
  }
  scene.take(tip);
  return true;
}

void draw_distractors(const PathfinderRules& rules, Scene& scene, Random& random) {
  Scene next = scene;
  for (int64_t k = 0; k < rules.distractors; ++k) {
    for (int attempt = 0; attempt < kDistractorTries; ++attempt) {
      next = scene;
      if (!draw_distractor(rules, next, random)) continue;
      scene = next;
      break;
    }
  }
}

}  // namespace

PathfinderRules pathfinder_rules(int64_t side, int64_t contour_length) {
  if (contour_length < 3 || contour_length > 20) {
    fail_usage("The contours of Pathfinder have 3 to 20 dashes (6 easy, 9 intermediate, 14 hard), ",
               "not ", contour_length, ".");
  }
  PathfinderRules rules;
  int64_t distractor_dashes = 20;
  if (side == 64) {
    rules = {64, 1, 14, 4, 5, 5, {1}, 1, 1.8, 12, 2.5, 0.8, 0.8};
    distractor_dashes = 22;
  } else if (side == 128) {
    rules = {128, 1, 14, 4, 5, 5, {2, 3}, 1.5, 1.8, 20, 3, 0.9, 0.9};
    distractor_dashes = 35;
  } else if (side == 256) {
    rules = {256, 22, 14, 4, 5, 5, {3}, 2, 1.8, 27, 5, 1, 1};
    distractor_dashes = 30;
  } else if (side != 32) {
    fail_usage("Pathfinder is made with 32, 64, 128 or 256 pixels a side, not ", side, ".");
  }
  rules.contour_length = contour_length;
  rules.distractor_length = contour_length / 3;
  rules.distractors = distractor_dashes / rules.distractor_length;
  return rules;
}

PathfinderArtist::PathfinderArtist(const PathfinderRules& rules) : rules_(rules) {
  for (const int64_t gap : rules_.gaps) {
    stamps_.push_back(std::make_unique<const PathfinderStamps>(rules_, gap));
  }
}

PathfinderArtist::~PathfinderArtist() = default;

PathfinderPicture PathfinderArtist::draw(Random random) const {
  constexpr int kAttempts = 100'000;
  PathfinderPicture picture;
  picture.label = random.below(2);
  const auto& stamps = *stamps_[static_cast<size_t>(random.below(std::ssize(stamps_)))];
  Scene empty(rules_, stamps);
  empty.close_border(rules_.padding);
  Scene scene = empty;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    scene = empty;
    Tip tips[2];
    if (!draw_targets(rules_, scene, random, tips)) continue;
    draw_distractors(rules_, scene, random);
    const int64_t origin = random.below(2);
    const Step from = tips[origin].start;
    const Step to = tips[picture.label == 1 ? origin : 1 - origin].end;
    scene.mark(from);
    scene.mark(to);
    picture.markers = {{{from.dy, from.dx}, {to.dy, to.dx}}};
    picture.image = scene.image();
    return picture;
  }
  fail_usage("Two contours of ", rules_.contour_length, " dashes found no room on ", rules_.side,
             " x ", rules_.side, " pixels; ask for shorter ones.");
}

}  // namespace tost
