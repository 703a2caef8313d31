// Compiles the passes once per instruction set and picks one at run time.
#include "tost/kernels/tssa_passes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/tssa_passes.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "tost/kernels/tssa_backward-inl.h"
#include "tost/kernels/tssa_forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

template <class T>
constexpr TssaPasses kPasses = {&energy_pass<T>,          &membership_pass<T>,
                                &output_pass<T>,          &grad_moment_pass<T>,
                                &grad_membership_pass<T>, &grad_input_pass<T>};

inline const TssaPasses& passes_for(DType dtype) {
  return dtype == DType::kBfloat16 ? kPasses<Bf16> : kPasses<float>;
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tost/kernels/isa.h"

namespace tost::kernels {
namespace {

using PassesFor = const TssaPasses& (*)(DType);

// HWY_VISIT_TARGETS would also name sets of other processors; these are the ones compiled above.
PassesFor passes_of_target(int64_t target) {
#define TOST_CASE(HAVE, NAMESPACE) \
  if (target == (HAVE)) return &NAMESPACE::passes_for;
#if HWY_TARGETS & HWY_AVX3
  TOST_CASE(HWY_AVX3, N_AVX3)
#endif
#if HWY_TARGETS & HWY_AVX2
  TOST_CASE(HWY_AVX2, N_AVX2)
#endif
#if HWY_TARGETS & HWY_SSE4
  TOST_CASE(HWY_SSE4, N_SSE4)
#endif
#if HWY_TARGETS & HWY_SSSE3
  TOST_CASE(HWY_SSSE3, N_SSSE3)
#endif
#if HWY_TARGETS & HWY_NEON
  TOST_CASE(HWY_NEON, N_NEON)
#endif
#if HWY_TARGETS & HWY_EMU128
  TOST_CASE(HWY_EMU128, N_EMU128)
#endif
#if HWY_TARGETS & HWY_SCALAR
  TOST_CASE(HWY_SCALAR, N_SCALAR)
#endif
#undef TOST_CASE
  return nullptr;
}

}  // namespace

const TssaPasses& tssa_passes(DType dtype) {
  return passes_of_target(current_isa_target())(dtype);
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
