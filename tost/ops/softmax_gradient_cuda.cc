// On a GPU, one pass over the logits.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "tost/kernels/cuda/rows_cuda.h"
#include "tost/ops/cuda_call.h"
#include "tost/ops/softmax_gradient.h"

namespace tost {
namespace {

using at::Tensor;

Tensor softmax_gradient_cuda(const Tensor& logits, const Tensor& targets,
                             const std::optional<Tensor>& scale) {
  const auto type = logits.scalar_type();
  const bool taken = by_kernels(logits) && (type == at::kFloat || type == at::kBFloat16) && logits.is_contiguous() &&
                     targets.is_contiguous() && logits.numel() > 0;
  if (!taken) return softmax_gradient_plain(logits, targets, scale);
  TORCH_CHECK(logits.dim() == 2 && targets.numel() == logits.size(0), "targets ", targets.sizes(),
              " do not fit logits ", logits.sizes());
  TORCH_CHECK(targets.device() == logits.device() &&
                  (!scale.has_value() || scale->device() == logits.device()),
              "logits, targets and scale must be on one device");
  const c10::cuda::CUDAGuard guard(logits.device());
  const Tensor losses = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
  kernels::cuda::SoftmaxGradientArgs args;
  args.rows = logits.size(0), args.width = logits.size(1);
  args.dtype = kernel_dtype(logits);
  args.logits = logits.mutable_data_ptr();
  args.targets = targets.const_data_ptr<int64_t>();
  args.scale = scale.has_value() ? scale->const_data_ptr<double>() : nullptr;
  args.losses = losses.mutable_data_ptr<float>();
  gpu_check(kernels::cuda::softmax_gradient(args, gpu_stream()));
  return losses.sum(at::kDouble);
}

}  // namespace

TORCH_LIBRARY_IMPL(tost, CUDA, m) {
  m.impl("_softmax_gradient", softmax_gradient_cuda);
}

}  // namespace tost
