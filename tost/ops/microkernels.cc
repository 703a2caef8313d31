// Gives the engines what torch has: its number of threads, and oneDNN's products of bfloat16 and
// int8 (engine/packed_linear.h), as far as this CPU has them.
#include <ATen/native/CPUBlas.h>

#include <algorithm>
#include <exception>
#include <vector>

#include "tost/engine/packed_linear.h"
#include "tost/engine/threads.h"
#include "tost/ops/kernel_call.h"

namespace tost {
namespace {

namespace blas = at::native::cpublas;

template <class A, class B, class C>
void multiply(const Microkernels::Call& c) {
  blas::brgemm(c.rows, c.columns, c.inputs, c.x_stride, c.columns, c.sums_stride, c.add,
               static_cast<const A*>(c.x), static_cast<const B*>(c.weight), static_cast<C*>(c.sums),
               /*is_vnni=*/true);
}

void release() {
  blas::brgemm_release();
}

// Whether a product of matrices filled with `value` has the right sums. Large values reveal units
// that saturate sums of pairs, as int8 without VNNI does.
template <class A, class B, class C>
bool product_is_right(A a, B b, C expected) {
  constexpr int64_t kRows = 16, kColumns = 32, kInputs = 64;
  const std::vector<A> rows(kRows * kInputs, a);
  const std::vector<B> columns(kInputs * kColumns, b);
  std::vector<C> sums(kRows * kColumns);
  try {
    multiply<A, B, C>({kRows, kColumns, kInputs, rows.data(), kInputs, columns.data(), sums.data(),
                       kColumns, /*add=*/false});
    release();
  } catch (const std::exception&) {
    return false;  // c10::Error where torch refuses, dnnl::error where oneDNN does
  }
  return std::all_of(sums.begin(), sums.end(), [&](C sum) { return sum == expected; });
}

Microkernels find() {
  Microkernels found;
  if (product_is_right<at::BFloat16, at::BFloat16, float>(at::BFloat16(1.5f), 2.0f, 192.0f)) {
    found.bfloat16 = multiply<at::BFloat16, at::BFloat16, float>;
  }
  if (product_is_right<unsigned char, signed char, int32_t>(255, 127, 64 * 255 * 127) &&
      product_is_right<unsigned char, signed char, int32_t>(255, -127, -64 * 255 * 127)) {
    found.int8 = multiply<unsigned char, signed char, int32_t>;
  }
  if (found.bfloat16 != nullptr || found.int8 != nullptr) found.release = release;
  return found;
}

[[maybe_unused]] const bool kKnown =
    (find_microkernels_by(find), count_engine_threads_by(torch_threads), true);

}  // namespace
}  // namespace tost
