#include "tost/data/pathfinder.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tost/base/error.h"
#include "tost/data/pathfinder_stamps.h"

namespace tost {
namespace {

// A Pathfinder picture in the making: what is drawn, and where no other dash may go.

// The growing end of a contour.
struct Tip {
  Step pivot;                   // from which the next dash is found
  double angle = 0;             // of the last dash
  Step start;                   // where the contour begins, the place of its disc
  Step end;                     // where its last dash ends
  const Stamp* room = nullptr;  // of the last dash, not yet taken
};

constexpr int kTries = 3;      // of one dash
constexpr float kFree = 0.3f;  // rooms have soft edges
constexpr double kCollision = 1.8;

Step operator+(const Step& a, const Step& b) {
  return {a.dy + b.dy, a.dx + b.dx};
}

const Direction& any_direction(const PathfinderStamps& stamps, Random& random) {
  return stamps.degrees[static_cast<size_t>(random.below(360))];
}

// Calls visit(pixel, value) for the part of a stamp that lies on a picture of `side`.
template <typename Visit>
void put(const Stamp& stamp, const Step& at, int64_t side, Visit visit) {
  const int64_t low = std::max(-stamp.reach, -at.dy),
                high = std::min(stamp.reach, side - 1 - at.dy);
  const int64_t left = std::max(-stamp.reach, -at.dx);
  const int64_t right = std::min(stamp.reach, side - 1 - at.dx);
  for (int64_t dy = low; dy <= high; ++dy) {
    for (int64_t dx = left; dx <= right; ++dx) {
      visit(static_cast<size_t>((at.dy + dy) * side + at.dx + dx), stamp.at(dy, dx));
    }
  }
}

template <typename T>
void draw_over(std::vector<T>& picture, const Stamp& stamp, const Step& at, int64_t side,
               double contrast) {
  put(stamp, at, side, [&](size_t pixel, double value) {
    picture[pixel] = std::max(picture[pixel], static_cast<T>(value * contrast));
  });
}

// The larger, the less the contour turns; squared cosine of the turn times the continuity.
double straightness(double angle, double before, double continuity) {
  const double apart = std::abs(angle - before);
  const double turn = std::min(apart, 2 * std::numbers::pi - apart) * continuity;
  const double cosine = std::max(std::cos(std::min(turn, std::numbers::pi / 2)), 0.0);
  return cosine * cosine;
}

class Scene {
 public:
  Scene(const PathfinderRules& rules, const PathfinderStamps& stamps)
      : rules_(&rules), stamps_(&stamps), side_(rules.side) {
    taken_.resize(static_cast<size_t>(side_ * side_));
  }

  // A first dash out of what is taken and off the edge; `central`: on an empty picture, twice the
  // distance of both beginnings away from the edge. False where none was found.
  bool begin(bool central, double contrast, Random& random, Tip& tip) {
    for (int attempt = 0; attempt < kTries; ++attempt) {
      const Direction& direction = any_direction(*stamps_, random);
      Step at;
      const bool found =
          direction.usable && (central ? any_central_place(direction.kernel, random, at)
                                       : any_place(direction.kernel, random, at));
      if (!found) return false;
      if (place_first(direction, at, contrast, tip)) return true;
    }
    return false;
  }

  // A first dash at the rules' distance from where `first` begins.
  bool begin_beside(const Tip& first, double contrast, Random& random, Tip& tip) {
    for (int attempt = 0; attempt < kTries; ++attempt) {
      const Direction& direction = any_direction(*stamps_, random);
      const double around = static_cast<double>(random.below(360)) * std::numbers::pi / 180;
      const auto distance = static_cast<double>(rules_->seed_distance);
      const Step at = first.start + Step{std::llround(distance * std::sin(around)),
                                         std::llround(distance * std::cos(around))};
      if (place_first(direction, at, contrast, tip)) return true;
    }
    return false;
  }

  // One more dash. False where there is no room.
  bool extend(Tip& tip, double contrast, Random& random) {
    const auto stride = static_cast<double>(rules_->dash_length + 2 * stamps_->gap);
    const Step pivot = tip.pivot + reach_out(tip.angle, stride);
    std::vector<double> sums(stamps_->circle.size());
    double sum = 0;
    for (size_t k = 0; k < sums.size(); ++k) {
      const Step end = pivot + stamps_->circle[k];
      const double weight = straightness(stamps_->angles[k], tip.angle, rules_->continuity);
      if (weight > 0 && inside(end)) sum += weight * (1 - taken_around(end));
      sums[k] = sum;
    }
    if (sum < 1e-4) return false;
    for (int attempt = 0; attempt < kTries; ++attempt) {
      const auto chosen = static_cast<size_t>(
          std::upper_bound(sums.begin(), sums.end(), random.uniform() * sum) - sums.begin());
      const size_t k = std::min(chosen, sums.size() - 1);
      const Step end = pivot + stamps_->circle[k];
      if (collides(stamps_->dashes[k].room, end)) continue;
      drawn_.push_back({&stamps_->dashes[k].line, end, contrast});
      take(tip);
      tip = {pivot, stamps_->angles[k], tip.start, end, &stamps_->dashes[k].room};
      return true;
    }
    return false;
  }

  // the room of its last dash
  void take(const Tip& tip) { draw_over(taken_, *tip.room, tip.end, side_, 1); }

  // with a disc
  void mark(const Step& at) { drawn_.push_back({&stamps_->marker, at, 1}); }

  // less than 1 % is free
  bool nearly_full() const {
    const auto free =
        std::count_if(taken_.begin(), taken_.end(), [](float t) { return t <= kFree; });
    return free * 100 < side_ * side_;
  }

  void close_border(int64_t border) {
    std::fill(taken_.begin(), taken_.begin() + border * side_, 1.0f);
    std::fill(taken_.end() - border * side_, taken_.end(), 1.0f);
    for (int64_t y = 0; y < side_; ++y) {
      const auto row = taken_.begin() + y * side_;
      std::fill(row, row + border, 1.0f);
      std::fill(row + side_ - border, row + side_, 1.0f);
    }
  }

  Image image() const {
    std::vector<double> values(taken_.size());
    for (const Drawn& drawn : drawn_) {
      draw_over(values, *drawn.stamp, drawn.at, side_, drawn.contrast);
    }
    const double brightest = *std::max_element(values.begin(), values.end());
    Image image(side_, side_, 1);
    std::transform(values.begin(), values.end(), image.pixels.begin(), [&](double value) {
      return static_cast<uint8_t>(value / brightest * 255 + 0.5);
    });
    return image;
  }

 private:
  bool inside(const Step& at) const {
    return at.dy >= 0 && at.dx >= 0 && at.dy < side_ && at.dx < side_;
  }
  float taken_around(const Step& at) const {
    float most = 0;
    for (const Step& step : stamps_->around) {
      const Step place = at + step;
      if (inside(place))
        most = std::max(most, taken_[static_cast<size_t>(place.dy * side_ + place.dx)]);
    }
    return most;
  }

  bool place_first(const Direction& direction, const Step& at, double contrast, Tip& tip) {
    const auto length = static_cast<double>(rules_->dash_length);
    const double back = direction.angle < 0 ? direction.angle + std::numbers::pi
                                            : direction.angle - std::numbers::pi;
    const Step head = at + reach_out(direction.angle, length);
    const Step pivot = head + reach_out(back, length + static_cast<double>(stamps_->gap));
    if (!inside(head) || !inside(pivot)) return false;
    drawn_.push_back({&direction.dash.line, at, contrast});
    tip = {pivot, direction.angle, at, at, &direction.dash.room};
    return true;
  }

  bool collides(const Stamp& room, const Step& at) const {
    bool found = false;
    put(room, at, side_,
        [&](size_t pixel, float value) { found |= taken_[pixel] + value >= kCollision; });
    return found;
  }

  bool any_place(const std::vector<Step>& kernel, Random& random, Step& at) const {
    std::vector<uint8_t> blocked(taken_.size()), taken(taken_.size(), 1);
    for (int64_t y = 1; y < side_ - 1; ++y) {
      for (int64_t x = 1; x < side_ - 1; ++x) {
        const auto pixel = static_cast<size_t>(y * side_ + x);
        taken[pixel] = taken_[pixel] > kFree;
      }
    }
    for (const Step& step : kernel) {
      const int64_t left = std::max<int64_t>(0, -step.dx);
      const int64_t right = std::min(side_, side_ - step.dx);
      for (int64_t y = std::max<int64_t>(0, -step.dy); y < std::min(side_, side_ - step.dy); ++y) {
        const uint8_t* from = taken.data() + (y + step.dy) * side_ + step.dx;
        uint8_t* to = blocked.data() + y * side_;
        for (int64_t x = left; x < right; ++x) to[x] |= from[x];
      }
    }
    const auto free = std::count(blocked.begin(), blocked.end(), uint8_t{0});
    if (free == 0) return false;
    int64_t before = random.below(free);
    const auto chosen = std::find_if(blocked.begin(), blocked.end(),
                                     [&](uint8_t b) { return b == 0 && before-- == 0; });
    const int64_t pixel = chosen - blocked.begin();
    at = {pixel / side_, pixel % side_};
    return true;
  }

  // On an empty picture the free places are a rectangle.
  bool any_central_place(const std::vector<Step>& kernel, Random& random, Step& at) const {
    const int64_t border = 2 * rules_->seed_distance;
    Step low{border, border}, high{side_ - 1 - border, side_ - 1 - border};
    for (const Step& step : kernel) {
      low = {std::max(low.dy, border - step.dy), std::max(low.dx, border - step.dx)};
      high = {std::min(high.dy, side_ - 1 - border - step.dy),
              std::min(high.dx, side_ - 1 - border - step.dx)};
    }
    if (low.dy > high.dy || low.dx > high.dx) return false;
    at.dy = low.dy + random.below(high.dy - low.dy + 1);
    at.dx = low.dx + random.below(high.dx - low.dx + 1);
    return true;
  }

  const PathfinderRules* rules_;
  const PathfinderStamps* stamps_;
  int64_t side_;
  struct Drawn {
    const Stamp* stamp;
    Step at;
    double contrast;
  };
  std::vector<Drawn> drawn_;  // most scenes are discarded before anything needs drawing
  std::vector<float> taken_;
};

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
