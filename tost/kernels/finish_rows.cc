// What follows a matrix product: see row_ops.h. A panel's sums are read once, while they are in the
// L1 cache; what belongs to a column stays in registers over all rows.
#include "tost/kernels/row_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tost/kernels/finish_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "tost/kernels/finish-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tost::kernels::HWY_NAMESPACE {

template <class Sum>
void finish_sums(const FinishRowsArgs& a) {
  if (a.out_dtype == DType::kFloat32) return finish_as<Sum, float>(a);
  has_native_bf16() ? finish_as<Sum, NativeBf16>(a) : finish_as<Sum, Bf16>(a);
}

inline void finish(const FinishRowsArgs& a) {
  a.column_scale != nullptr ? finish_sums<int32_t>(a) : finish_sums<float>(a);
}

}  // namespace tost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tost/kernels/targets.h"
#include "tost/kernels/work_times.h"

namespace tost::kernels {

void finish_rows(const FinishRowsArgs& args) {
  const WorkTimer timer(Work::kFinish);
  TOST_OF_TARGET(finish(args));
}

}  // namespace tost::kernels
#endif  // HWY_ONCE
