// Compiles the causal passes once per instruction set and picks one at run time.
#include "tost/kernels/causal_passes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/causal_passes.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "tost/kernels/causal_backward-inl.h"
#include "tost/kernels/causal_forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

inline void flush() {
  hwy::FlushStream();
}

template <class T>
constexpr CausalPasses kCausalPasses = {&causal_logits<T>,
                                        &causal_softmax,
                                        &causal_output<T>,
                                        &causal_grad_membership<T>,
                                        &causal_grad_softmax,
                                        &causal_grad_input<T>,
                                        &fold,
                                        &flush};

inline const CausalPasses& causal_passes_for(DType dtype) {
  return dtype == DType::kBfloat16 ? kCausalPasses<Bf16> : kCausalPasses<float>;
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tost/kernels/targets.h"

namespace tost::kernels {

const CausalPasses& causal_passes(DType dtype) {
  return TOST_OF_TARGET(causal_passes_for(dtype));
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
