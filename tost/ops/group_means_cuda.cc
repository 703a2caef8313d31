// The inner operators of group means on a GPU. What the kernels do not take, has_fused_means()
// leaves to ATen.
#include "tost/kernels/cuda/means_cuda.h"
#include "tost/ops/cuda_call.h"
#include "tost/ops/group_means_rows.h"

namespace tost {
namespace {

struct MeansOnGpu {
  using Guard = c10::cuda::CUDAGuard;
  static auto empty(const at::Tensor& like) { return gpu_empty(like); }
  static void run(const kernels::MeansForwardArgs& args, const at::Tensor& like) {
    const auto workspace = gpu_workspace(kernels::cuda::means_workspace(args), like);
    gpu_check(kernels::cuda::means_forward(args, workspace.mutable_data_ptr(), gpu_stream()));
  }
  static void run(const kernels::MeansBackwardArgs& args, const at::Tensor& like) {
    const auto workspace = gpu_workspace(kernels::cuda::means_workspace(args), like);
    gpu_check(kernels::cuda::means_backward(args, workspace.mutable_data_ptr(), gpu_stream()));
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(tost, CUDA, m) {
  MeansRows<MeansOnGpu>::give_to(m);
}

}  // namespace tost
