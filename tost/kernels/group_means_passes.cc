// Compiles the passes of group means once per instruction set and picks one at run time.
#include "tost/kernels/group_means_passes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/group_means_passes.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "tost/kernels/group_means-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

inline void flush_means() {
  hwy::FlushStream();
}

template <class T, bool kGate>
constexpr MeansPasses kMeansPasses = {&means_forward_pass<T, kGate>, &means_restore_pass<T>,
                                      &means_backward_pass<T, kGate>, &flush_means};

inline const MeansPasses& means_passes_for(DType dtype, bool gate) {
  if (gate) {
    return dtype == DType::kBfloat16 ? kMeansPasses<Bf16, true> : kMeansPasses<float, true>;
  }
  return dtype == DType::kBfloat16 ? kMeansPasses<Bf16, false> : kMeansPasses<float, false>;
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tost/kernels/targets.h"

namespace tost::kernels {

const MeansPasses& means_passes(DType dtype, bool gate) {
  return TOST_OF_TARGET(means_passes_for(dtype, gate));
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
