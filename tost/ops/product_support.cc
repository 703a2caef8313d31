#include "tost/ops/product_support.h"

#include <ATen/native/CPUBlas.h>

#include <algorithm>
#include <exception>
#include <vector>

#include "tost/kernels/products/panel_rows.h"

namespace tost {
namespace {

namespace blas = at::native::cpublas;

// Whether a product of matrices filled with `value` has the right sums. Large values reveal units
// that saturate sums of pairs, as int8 units without VNNI do.
template <class A, class B, class C>
bool product_is_right(A a, B b, C expected) {
  constexpr int64_t kRows = 16, kColumns = 32, kInputs = 64;
  constexpr bool kVnni = sizeof(A) < 4;
  const std::vector<A> rows(kRows * kInputs, a);
  const std::vector<B> columns(kInputs * kColumns, b);
  std::vector<C> sums(kRows * kColumns);
  try {
    blas::brgemm(kRows, kColumns, kInputs, kInputs, kColumns, kColumns, /*add_C=*/false,
                 rows.data(), columns.data(), sums.data(), kVnni);
    blas::brgemm_release(kVnni);
  } catch (const std::exception&) {
    return false;  // c10::Error where torch refuses, dnnl::error where oneDNN does
  }
  return std::all_of(sums.begin(), sums.end(), [&](C sum) { return sum == expected; });
}

ProductSupport probe() {
  ProductSupport support;
  support.float32 = product_is_right<float, float, float>(1.5f, 2.0f, 192.0f);
  support.bfloat16 =
      product_is_right<at::BFloat16, at::BFloat16, float>(at::BFloat16(1.5f), 2.0f, 192.0f);
  support.int8 = product_is_right<unsigned char, signed char, int32_t>(255, 127, 64 * 255 * 127) &&
                 product_is_right<unsigned char, signed char, int32_t>(255, -127, -64 * 255 * 127);
  return support;
}

}  // namespace

const ProductSupport& product_support() {
  static const ProductSupport support = probe();
  return support;
}

bool int8_by_pairs() {
  return !product_support().int8 && kernels::has_pair_product();
}

bool multiplies_as_packed(Packing packing) {
  return product_support().of(packing) || (packing == Packing::kInt8 && int8_by_pairs());
}

const char* product_method(Packing packing) {
  if (product_support().of(packing)) return "microkernel";
  if (multiplies_as_packed(packing)) return "pairs of 16-bit numbers";
  return packing == Packing::kFloat32 ? "general product" : "float32 on rounded numbers";
}

}  // namespace tost
