#include "tost/base/random.h"

#include <bit>
#include <cmath>

namespace tost {
namespace {

uint64_t splitmix64(uint64_t& state) {
  uint64_t z = (state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(uint64_t seed, uint64_t stream, uint64_t substream) {
  // Mixes each word before the next one is added, so that neighbouring streams are independent.
  uint64_t mix = seed;
  mix = splitmix64(mix) ^ stream;
  mix = splitmix64(mix) ^ substream;
  for (uint64_t& word : state_) word = splitmix64(mix);
}

uint64_t Random::next() {
  const uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
  const uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double Random::uniform() {
  return static_cast<double>(next() >> 11) * 0x1p-53;
}

double Random::uniform(double low, double high) {
  return low + (high - low) * uniform();
}

int64_t Random::below(int64_t n) {
  const uint64_t bound = static_cast<uint64_t>(n);
  const uint64_t reject_below = -bound % bound;  // 2^64 mod n
  uint64_t bits = next();
  while (bits < reject_below) bits = next();
  return static_cast<int64_t>(bits % bound);
}

double Random::normal() {
  for (;;) {
    const double x = uniform(-1.0, 1.0);
    const double y = uniform(-1.0, 1.0);
    const double square = x * x + y * y;
    if (square > 0.0 && square < 1.0) return x * std::sqrt(-2.0 * std::log(square) / square);
  }
}

double Random::gamma(double shape) {
  if (shape < 1.0) {
    const double u = 1.0 - uniform();
    return gamma(shape + 1.0) * std::pow(u, 1.0 / shape);
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = normal();
    const double v = 1.0 + c * x;
    if (v <= 0.0) continue;
    const double cube = v * v * v;
    const double u = 1.0 - uniform();
    if (std::log(u) < 0.5 * x * x + d - d * cube + d * std::log(cube)) return d * cube;
  }
}

double Random::beta(double a, double b) {
  const double x = gamma(a);
  const double y = gamma(b);
  return x + y > 0.0 ? x / (x + y) : 0.5;
}

}  // namespace tost
