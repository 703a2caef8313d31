// Products of bytes held in 16 bits, for CPUs that add products of 16-bit numbers in pairs (AVX2),
// but have no instruction for those of bytes (VNNI).
#pragma once

#include <cstdint>

namespace tost::kernels {

// Whether AVX2 is the instruction set in use; with AVX-512 float32 is as fast.
bool has_pair_product();

inline constexpr int64_t kPairColumns = 16;

// Computes sums = x weight, exactly if no sum overflows int32.
struct PairProductArgs {
  int64_t rows = 0;
  int64_t inputs = 0;          // even, above 0
  const int16_t* x = nullptr;  // [rows, inputs]
  int64_t x_stride = 0;
  const int16_t* weight = nullptr;  // [inputs / 2, kPairColumns, 2]
  int32_t* sums = nullptr;          // [rows, kPairColumns], contiguous
};
// Requires has_pair_product().
void pair_product(const PairProductArgs& args);

}  // namespace tost::kernels
