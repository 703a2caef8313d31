#include "tost/io/shapes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "tost/base/error.h"
#include "tost/base/random.h"

namespace tost {
namespace {

using Color = std::array<double, 3>;  // 0..1

// The outlines of `shapes`, each in the unit disc.
bool disc(double x, double y) {
  return x * x + y * y < 0.81;
}
bool square(double x, double y) {
  return std::max(std::abs(x), std::abs(y)) < 0.76;
}

bool triangle(double x, double y) {
  return y < 0.55 && y > -0.95 + std::numbers::sqrt3 * std::abs(x) * 0.87;
}

bool star(double x, double y) {
  // Whether a point is in a star of five points. Reduces the angle to half a point of the star, and
  // compares with the line from outer to inner radius.
  constexpr double step = std::numbers::pi / 5;
  const double angle = std::abs(std::remainder(std::atan2(x, -y), 2 * step));
  const double radius = std::hypot(x, y);
  constexpr double outer = 1.0, inner = 0.42;
  const double px = radius * std::cos(angle), py = radius * std::sin(angle);
  const double ix = inner * std::cos(step), iy = inner * std::sin(step);
  return (px - outer) * iy - py * (ix - outer) > 0 ? false : true;
}

bool cross(double x, double y) {
  const double a = std::abs(x), b = std::abs(y);
  return std::max(a, b) < 0.92 && std::min(a, b) < 0.3;
}

bool ring(double x, double y) {
  const double r = std::hypot(x, y);
  return r < 0.95 && r > 0.52;
}

bool crescent(double x, double y) {
  return x * x + y * y < 0.9 && (x - 0.42) * (x - 0.42) + y * y > 0.5;
}

bool heart(double x, double y) {
  const double u = x * 1.2, v = 0.12 - y * 1.2;
  const double w = u * u + v * v - 0.78;
  return w * w * w < u * u * v * v * v * 1.3;
}

bool bar(double x, double y) {
  return std::abs(x) < 0.95 && std::abs(y) < 0.33;
}

bool arrow(double x, double y) {
  const bool shaft = y > -0.1 && y < 0.92 && std::abs(x) < 0.24;
  const bool head = y <= 0 && y > -0.95 + 1.15 * std::abs(x);
  return shaft || head;
}

struct Outline {
  const char* name;
  bool (*inside)(double, double);
};

constexpr Outline kOutlines[] = {{"disc", disc},         {"square", square}, {"triangle", triangle},
                                 {"star", star},         {"cross", cross},   {"ring", ring},
                                 {"crescent", crescent}, {"heart", heart},   {"bar", bar},
                                 {"arrow", arrow}};

const std::vector<std::string>& shape_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Outline& outline : kOutlines) list.push_back(outline.name);
    return list;
  }();
  return names;
}

// Whether the point (x, y) is inside shape number `shape`; y points downwards.
bool inside_shape(int shape, double x, double y) {
  return kOutlines[shape].inside(x, y);
}

constexpr int kGrid = 3;  // samples a pixel and axis for the outlines' antialiasing
constexpr double kNoise = 0.03;

struct Range {
  double low, high;
};

// Draws vivid colours for objects and pale ones elsewhere. A linear model cannot use the
// difference, because hues are uniform and channels have nearly the same mean.
struct Palette {
  Range saturation, value;
};
constexpr Palette kVivid{{0.6, 1.0}, {0.3, 1.0}};
constexpr Palette kPale{{0.0, 0.3}, {0.15, 0.75}};

Color random_color(Random& random, const Palette& palette) {
  const double hue = random.uniform(0, 6);
  const double saturation = random.uniform(palette.saturation.low, palette.saturation.high);
  const double value = random.uniform(palette.value.low, palette.value.high);
  Color color;
  for (size_t c = 0; c < 3; ++c) {
    const double k = std::fmod(5 - 2 * static_cast<double>(c) + hue, 6);
    color[c] = value - value * saturation * std::clamp(std::min(k, 4 - k), 0.0, 1.0);
  }
  return color;
}

double distance(const Color& a, const Color& b) {
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

Color mix(const Color& a, const Color& b, double t) {
  return {a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1]), a[2] + t * (b[2] - a[2])};
}

// A pattern of two colours; lengths are shares of the picture's side.
struct Texture {
  enum Kind { kGradient, kStripes, kChecks, kDots, kWaves, kKinds };
  Kind kind;
  Color first, second;
  double cosine, sine, period, phase_x, phase_y;

  Texture(Random& random, const Color& a, const Color& b)
      : kind(static_cast<Kind>(random.below(kKinds))), first(a), second(b) {
    const double angle = random.uniform(0, 2 * std::numbers::pi);
    cosine = std::cos(angle);
    sine = std::sin(angle);
    period = random.uniform(0.10, 0.24);
    phase_x = random.uniform();
    phase_y = random.uniform();
  }

  Color at(double x, double y) const {
    const double u = (cosine * x + sine * y) / period + phase_x;
    const double v = (cosine * y - sine * x) / period + phase_y;
    const double fu = u - std::floor(u), fv = v - std::floor(v);
    switch (kind) {
      case kGradient:
        return mix(first, second, std::clamp(0.5 + (u - phase_x) * period, 0.0, 1.0));
      case kStripes:
        return fu < 0.5 ? first : second;
      case kChecks:
        return (fu < 0.5) == (fv < 0.5) ? first : second;
      case kDots:
        return std::hypot(fu - 0.5, fv - 0.5) < 0.33 ? second : first;
      default:
        return mix(first, second, 0.5 + 0.5 * std::sin(6.2832 * u + 2 * std::sin(4 * v)));
    }
  }
};

struct Thing {
  int shape;
  double x, y, radius, stretch, angle;
  Texture texture;
};

struct Canvas {
  int64_t side;
  std::vector<Color> pixels;
  Image* mask;

  // Calls paint(pixel, share, x, y) for pixels within `radius` of a point; the share is that of the
  // pixel inside a shape.
  template <typename Inside, typename Paint>
  void cover(double x, double y, double radius, Inside inside, Paint paint) {
    const double scale = static_cast<double>(side);
    const auto low = [&](double v) {
      return std::clamp<int64_t>(static_cast<int64_t>(std::floor((v - radius) * scale)), 0, side);
    };
    const auto high = [&](double v) {
      return std::clamp<int64_t>(static_cast<int64_t>(std::ceil((v + radius) * scale)), 0, side);
    };
    for (int64_t py = low(y); py < high(y); ++py) {
      for (int64_t px = low(x); px < high(x); ++px) {
        int hits = 0;
        for (int k = 0; k < kGrid * kGrid; ++k) {
          const double sx = (static_cast<double>(px) + (k % kGrid + 0.5) / kGrid) / scale;
          const double sy = (static_cast<double>(py) + (k / kGrid + 0.5) / kGrid) / scale;
          hits += inside(sx, sy);
        }
        if (hits > 0) {
          paint(static_cast<size_t>(py * side + px), hits / static_cast<double>(kGrid * kGrid),
                (static_cast<double>(px) + 0.5) / scale, (static_cast<double>(py) + 0.5) / scale);
        }
      }
    }
  }

  void draw(const Thing& thing) {
    const double c = std::cos(thing.angle), s = std::sin(thing.angle);
    const auto inside = [&](double x, double y) {
      const double dx = (x - thing.x) / thing.radius, dy = (y - thing.y) / thing.radius;
      return inside_shape(thing.shape, (c * dx + s * dy) * thing.stretch,
                          (c * dy - s * dx) / thing.stretch);
    };
    cover(thing.x, thing.y, thing.radius * 1.25, inside,
          [&](size_t pixel, double share, double x, double y) {
            pixels[pixel] = mix(pixels[pixel], thing.texture.at(x, y), share);
            if (share >= 0.5) mask->pixels[pixel] = static_cast<uint8_t>(thing.shape + 1);
          });
  }

  // Draws a short stroke as clutter.
  void draw_stroke(Random& random) {
    const double x = random.uniform(), y = random.uniform();
    const double angle = random.uniform(0, std::numbers::pi);
    const double length = random.uniform(0.05, 0.2), width = random.uniform(0.012, 0.03);
    const double c = std::cos(angle), s = std::sin(angle);
    const Color color = random_color(random, kPale);
    const double strength = random.uniform(0.3, 0.8);
    const auto inside = [&](double px, double py) {
      const double dx = px - x, dy = py - y;
      return std::abs(c * dx + s * dy) < length && std::abs(c * dy - s * dx) < width;
    };
    cover(x, y, length + width, inside, [&](size_t pixel, double share, double, double) {
      pixels[pixel] = mix(pixels[pixel], color, share * strength);
    });
  }
};

// Draws two colours that differ from both colours of the background.
Texture object_texture(Random& random, const Texture& background) {
  Color first{}, second{};
  for (int attempt = 0; attempt < 40; ++attempt) {
    first = random_color(random, kVivid);
    second = mix(first, random_color(random, kVivid), random.uniform(0.15, 0.45));
    const double gap =
        std::min({distance(first, background.first), distance(first, background.second),
                  distance(second, background.first), distance(second, background.second)});
    if (gap > 0.4) break;
  }
  return {random, first, second};
}

Thing large_thing(int shape, Random& random, const Texture& background) {
  const double radius = random.uniform(0.30, 0.42);
  const double room = (0.5 - radius * 0.85) * 0.6;
  const double x = 0.5 + random.uniform(-room, room), y = 0.5 + random.uniform(-room, room);
  const double stretch = random.uniform(0.88, 1.14);
  const double angle = random.uniform(-0.35, 0.35);
  return {shape, x, y, radius, stretch, angle, object_texture(random, background)};
}

// Draws a small object that does not cover the middle of `large`, with at most a third of the area
// of the smallest large object.
Thing small_thing(int shape, Random& random, const Texture& background, const Thing& large) {
  const double radius = random.uniform(0.11, 0.155);
  double x = 0, y = 0;
  for (int attempt = 0; attempt < 40; ++attempt) {
    x = random.uniform(0.06, 0.94);
    y = random.uniform(0.06, 0.94);
    if (std::hypot(x - large.x, y - large.y) > large.radius * 0.85 + radius * 0.6) break;
  }
  const double angle = random.uniform(0, 2 * std::numbers::pi);
  return {shape, x, y, radius, 1.0, angle, object_texture(random, background)};
}

std::vector<int> shuffled_shapes(Random& random) {
  std::vector<int> shapes(shape_names().size());
  for (size_t i = 0; i < shapes.size(); ++i) shapes[i] = static_cast<int>(i);
  shuffle(shapes.data(), static_cast<int64_t>(shapes.size()), random);
  return shapes;
}

Image to_image(const Canvas& canvas, Random& random) {
  Image image(canvas.side, canvas.side, 3);
  uint8_t* to = image.pixels.data();
  for (const Color& color : canvas.pixels) {
    for (double value : color) {
      const double noisy = (value + kNoise * random.normal()) * 255 + 0.5;
      *to++ = static_cast<uint8_t>(std::clamp(noisy, 0.0, 255.0));
    }
  }
  return image;
}

// Draws picture number `i`; Draws a picture; `mask` gets the object of each pixel.
Image render(uint64_t seed, uint64_t stream, int64_t i, int64_t side, Image& mask) {
  Random random(seed, stream, static_cast<uint64_t>(i));
  const std::vector<int> shapes = shuffled_shapes(random);
  const Color base = random_color(random, kPale);
  const Texture background(random, base,
                           mix(base, random_color(random, kPale), random.uniform(0.2, 0.6)));
  mask = Image(side, side, 1);
  Canvas canvas{side, std::vector<Color>(static_cast<size_t>(side * side)), &mask};
  for (int64_t p = 0; p < side * side; ++p) {
    canvas.pixels[static_cast<size_t>(p)] =
        background.at((static_cast<double>(p % side) + 0.5) / static_cast<double>(side),
                      (static_cast<double>(p / side) + 0.5) / static_cast<double>(side));
  }
  const int64_t strokes = 3 + random.below(4);
  for (int64_t k = 0; k < strokes; ++k) canvas.draw_stroke(random);
  const Thing large = large_thing(shapes[0], random, background);
  const int64_t small = 1 + random.below(2);
  const int64_t layer = random.below(small + 1);  // how many small ones the large one may cover
  for (int64_t k = 0; k < small; ++k) {
    if (k == layer) canvas.draw(large);
    canvas.draw(small_thing(shapes[static_cast<size_t>(k + 1)], random, background, large));
  }
  if (layer == small) canvas.draw(large);
  return to_image(canvas, random);
}

}  // namespace

ShapesDataset::ShapesDataset(uint64_t seed, const std::string& split, int64_t side, int64_t size)
    : seed_(seed), split_(split), stream_(split_stream(split)), side_(side), size_(size) {
  if (side < 16 || side > 512)
    fail_usage("The side of 'shapes' is 16 to 512 pixels, not ", side, ".");
  if (size < 1) fail_usage("The data set 'shapes' needs at least 1 picture, not ", size, ".");
}

const std::vector<std::string>& ShapesDataset::classes() const {
  return shape_names();
}

int64_t ShapesDataset::label(int64_t i) const {
  Random random(seed_, stream_, static_cast<uint64_t>(i));
  return shuffled_shapes(random)[0];
}

Image ShapesDataset::image(int64_t i) const {
  Image mask;
  return render(seed_, stream_, i, side_, mask);
}

Image ShapesDataset::mask(int64_t i) const {
  Image mask;
  render(seed_, stream_, i, side_, mask);
  return mask;
}

std::string ShapesDataset::name(int64_t i) const {
  return cat("shapes/", split_, "/", i);
}

}  // namespace tost
