// A small seeded generator for data and tests: the same numbers on every platform and compiler.
//
// xoshiro256++ (Blackman and Vigna, 2019); splitmix64 fills the state from (seed, stream,
// substream). A sample's random numbers depend only on its place: Random(seed, epoch, index).
#pragma once

#include <array>
#include <cstdint>

namespace tost {

class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0, uint64_t substream = 0);

  uint64_t next();                          // 64 uniform bits
  double uniform();                         // [0, 1), 53 bits
  double uniform(double low, double high);  // [low, high)
  int64_t below(int64_t n);                 // 0 ... n-1 without bias, n >= 1
  bool chance(double p) { return uniform() < p; }
  double normal();                  // mean 0, variance 1 (polar method)
  double gamma(double shape);       // scale 1, shape > 0 (Marsaglia and Tsang, 2000)
  double beta(double a, double b);  // a, b > 0

 private:
  std::array<uint64_t, 4> state_;
};

// Shuffles items[0 ... n) by Fisher and Yates' method.
template <typename T>
void shuffle(T* items, int64_t n, Random& random) {
  for (int64_t i = n - 1; i > 0; --i) {
    const int64_t j = random.below(i + 1);
    T held = items[i];
    items[i] = items[j];
    items[j] = held;
  }
}

}  // namespace tost
