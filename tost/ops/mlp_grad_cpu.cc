// The inner operators of blocks in training on the CPU.
#include "tost/ops/block_rows.h"

namespace tost::branch {
namespace {

struct OnCpu {
  struct Guard {
    explicit Guard(at::Device) {}
  };
  static int64_t column_sums_workspace(int64_t rows, int64_t width) {
    return kernels::column_sums_workspace(rows, width);
  }
  static void run(const kernels::NormForwardArgs& a) { kernels::norm_forward(a, torch_parallel); }
  static void run(const kernels::NormBackwardArgs& a) { kernels::norm_backward(a, torch_parallel); }
  static void run(const kernels::GeluForwardArgs& a) { kernels::gelu_forward(a, torch_parallel); }
  static void run(const kernels::GeluBackwardArgs& a) { kernels::gelu_backward(a, torch_parallel); }
  static void run(const kernels::ScaledAddArgs& a) { kernels::scaled_add(a, torch_parallel); }
  static void run(const kernels::KeptGradientArgs& a) { kernels::kept_gradient(a, torch_parallel); }
  static void run(const kernels::ScaleRowsArgs& a) { kernels::scale_rows(a, torch_parallel); }
  static void run(const kernels::GammaGradientArgs& a) {
    kernels::gamma_gradient(a, torch_parallel);
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(tost, CPU, m) {
  BlockRows<OnCpu>::give_to(m);
}

}  // namespace tost::branch
