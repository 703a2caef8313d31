// The inner operators of blocks in training on a GPU.
#include "tost/kernels/cuda/rows_cuda.h"
#include "tost/ops/block_rows.h"
#include "tost/ops/cuda_call.h"

namespace tost::branch {
namespace {

namespace cuda = kernels::cuda;

struct OnGpu {
  using Guard = c10::cuda::CUDAGuard;
  static int64_t column_sums_workspace(int64_t rows, int64_t width) {
    return cuda::column_sums_workspace(rows, width);
  }
  static void run(const kernels::NormForwardArgs& a) { queued(cuda::norm_forward, a); }
  static void run(const kernels::NormBackwardArgs& a) { queued(cuda::norm_backward, a); }
  static void run(const kernels::GeluForwardArgs& a) { queued(cuda::gelu_forward, a); }
  static void run(const kernels::GeluBackwardArgs& a) { queued(cuda::gelu_backward, a); }
  static void run(const kernels::ScaledAddArgs& a) { queued(cuda::scaled_add, a); }
  static void run(const kernels::KeptGradientArgs& a) { queued(cuda::kept_gradient, a); }
  static void run(const kernels::ScaleRowsArgs& a) { queued(cuda::scale_rows, a); }
  static void run(const kernels::GammaGradientArgs& a) { queued(cuda::gamma_gradient, a); }

 private:
  template <class Args>
  static void queued(int (*kernel)(const Args&, cuda::Stream), const Args& args) {
    gpu_check(kernel(args, gpu_stream()));
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(tost, CUDA, m) {
  BlockRows<OnGpu>::give_to(m);
}

}  // namespace tost::branch
