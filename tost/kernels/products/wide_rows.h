// Products of rows with packed weights, with the epilogue (row_ops.h) applied to each block of sums
// while it is in the L1 cache: in float32, and of narrow numbers where the CPU multiplies those.
#pragma once

#include <cstdint>

#include "tost/kernels/row_ops.h"

namespace tost::kernels {

// The content of words of 32 bits of rows and weights: a number, or a group of adjacent inputs of a
// row or column. One instruction multiplies two groups and adds the products up.
enum class Numbers : uint8_t {
  kFloat32,
  kBfloat16,  // groups of 2, sums float32: tile units (AMX), or AVX512_BF16
  kInt8,      // groups of 4, rows uint8, sums int32: tile units, or AVX512_VNNI
  kInt16,     // groups of 2 that hold bytes, sums int32: AVX2
};
// The inputs of a word.
inline constexpr int64_t word_inputs(Numbers numbers) {
  return numbers == Numbers::kFloat32 ? 1 : numbers == Numbers::kInt8 ? 4 : 2;
}
// Whether the instruction set in use multiplies them.
bool multiplies(Numbers numbers);

// The columns of a panel of float32 that the instruction set in use multiplies fastest.
int64_t wide_columns();

// The columns of a panel of groups. A weight has an even number of panels, filled up with zeros.
inline constexpr int64_t kGroupColumns = 16;
// The number of columns, of whole panels, by which threads share a product best.
int64_t shared_columns(Numbers numbers);

// Memory to prefetch into the L2 cache during the product, in `pieces` of `bytes` bytes that are
// `stride` bytes apart. Products by vectors prefetch the first piece. Results do not change.
struct FetchAhead {
  const char* data = nullptr;
  int64_t bytes = 0, stride = 0, pieces = 0;
};

struct ProductArgs {
  // The rows, columns and epilogue of the sums, which are never stored: `sums` stays null. Integers
  // need column_scale, others have none.
  FinishRowsArgs finish;
  Numbers numbers = Numbers::kFloat32;
  int64_t inputs = 0;       // words
  const void* x = nullptr;  // [rows, inputs]
  int64_t x_stride = 0;     // words
  // Panels [inputs, panel_columns] of words; the last one is filled up with zeros.
  const void* weight = nullptr;
  int64_t panel_columns = kGroupColumns;  // of float32 a multiple of 16
  int64_t panel_stride = 0;               // words
  FetchAhead next = {};                   // the weights of the caller's next product
};
// Computes a product; throws a usage Error if the set in use does not multiply its numbers. float32
// and integers add the products of a row in the order of the inputs: a result depends neither on
// the other rows nor on the columns and panels of the call. Results of bfloat16 do not depend on
// other rows.
void product(const ProductArgs& args);

// The product by vectors, even where the CPU has tile units (tile_rows.h).
void vector_product(const ProductArgs& args);

}  // namespace tost::kernels
