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
#include "tost/kernels/targets.h"

namespace tost::kernels {

const TssaPasses& tssa_passes(DType dtype) {
  return TOST_OF_TARGET(passes_for(dtype));
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
