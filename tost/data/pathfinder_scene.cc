#include "tost/data/pathfinder_scene.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tost {
namespace {

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

}  // namespace

Scene::Scene(const PathfinderRules& rules, const PathfinderStamps& stamps)
    : rules_(&rules), stamps_(&stamps), side_(rules.side) {
  taken_.resize(static_cast<size_t>(side_ * side_));
}

void Scene::close_border(int64_t border) {
  std::fill(taken_.begin(), taken_.begin() + border * side_, 1.0f);
  std::fill(taken_.end() - border * side_, taken_.end(), 1.0f);
  for (int64_t y = 0; y < side_; ++y) {
    const auto row = taken_.begin() + y * side_;
    std::fill(row, row + border, 1.0f);
    std::fill(row + side_ - border, row + side_, 1.0f);
  }
}

bool Scene::nearly_full() const {
  const auto free = std::count_if(taken_.begin(), taken_.end(), [](float t) { return t <= kFree; });
  return free * 100 < side_ * side_;
}

bool Scene::any_place(const std::vector<Step>& kernel, Random& random, Step& at) const {
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
bool Scene::any_central_place(const std::vector<Step>& kernel, Random& random, Step& at) const {
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

bool Scene::place_first(const Direction& direction, const Step& at, double contrast, Tip& tip) {
  const auto length = static_cast<double>(rules_->dash_length);
  const double back =
      direction.angle < 0 ? direction.angle + std::numbers::pi : direction.angle - std::numbers::pi;
  const Step head = at + reach_out(direction.angle, length);
  const Step pivot = head + reach_out(back, length + static_cast<double>(stamps_->gap));
  if (!inside(head) || !inside(pivot)) return false;
  drawn_.push_back({&direction.dash.line, at, contrast});
  tip = {pivot, direction.angle, at, at, &direction.dash.room};
  return true;
}

bool Scene::begin(bool central, double contrast, Random& random, Tip& tip) {
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

bool Scene::begin_beside(const Tip& first, double contrast, Random& random, Tip& tip) {
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

float Scene::taken_around(const Step& at) const {
  float most = 0;
  for (const Step& step : stamps_->around) {
    const Step place = at + step;
    if (inside(place))
      most = std::max(most, taken_[static_cast<size_t>(place.dy * side_ + place.dx)]);
  }
  return most;
}

bool Scene::collides(const Stamp& room, const Step& at) const {
  bool found = false;
  put(room, at, side_,
      [&](size_t pixel, float value) { found |= taken_[pixel] + value >= kCollision; });
  return found;
}

bool Scene::extend(Tip& tip, double contrast, Random& random) {
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

void Scene::take(const Tip& tip) {
  draw_over(taken_, *tip.room, tip.end, side_, 1);
}

void Scene::mark(const Step& at) {
  drawn_.push_back({&stamps_->marker, at, 1});
}

Image Scene::image() const {
  std::vector<double> values(taken_.size());
  for (const Drawn& drawn : drawn_) {
    draw_over(values, *drawn.stamp, drawn.at, side_, drawn.contrast);
  }
  const double brightest = *std::max_element(values.begin(), values.end());
  Image image(side_, side_, 1);
  std::transform(values.begin(), values.end(), image.pixels.begin(),
                 [&](double value) { return static_cast<uint8_t>(value / brightest * 255 + 0.5); });
  return image;
}

}  // namespace tost
