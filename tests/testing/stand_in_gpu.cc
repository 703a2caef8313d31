#include "tests/testing/stand_in_gpu.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <utility>
#include <vector>

#include "tost/base/function_ref.h"

namespace tost::testing {
bool gpu_for_tests() {
  at::globalContext().setAllowTF32CuDNN(false);  // its convolutions would differ from the CPU's
  return at::detail::getCUDAHooks().deviceCount() > 0;
}

}  // namespace tost::testing

#if !defined(TOST_TEST_WITH_CUDA)
namespace tost::testing {
namespace {

using at::Tensor;
using c10::IValue;

const c10::Device kGpu(c10::kCUDA, 0);

struct Guard final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> {
  static c10::Stream only_stream() { return c10::Stream(c10::Stream::DEFAULT, kGpu); }
  c10::Device exchangeDevice(c10::Device) const override { return kGpu; }
  c10::Device getDevice() const override { return kGpu; }
  c10::Stream getStream(c10::Device) const noexcept override { return only_stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return only_stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return only_stream(); }
};

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
  void deviceSynchronize(c10::DeviceIndex) const override {}
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(0);
    return generator;
  }
};

// Returns a tensor on another device that shares the memory of x and keeps it alive.
Tensor moved(const Tensor& x, c10::Device device) {
  auto* held = new Tensor(x);
  const auto release = [](void* context) { delete static_cast<Tensor*>(context); };
  c10::Storage storage(c10::Storage::use_byte_size_t(), x.storage().nbytes(),
                       c10::DataPtr(x.storage().mutable_data(), held, release, device),
                       c10::GetCPUAllocator(), /*resizable=*/true);
  const auto key = device.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  auto result = at::detail::make_tensor<c10::TensorImpl>(std::move(storage),
                                                         c10::DispatchKeySet(key), x.dtype());
  result.unsafeGetTensorImpl()->set_sizes_and_strides(x.sizes(), x.strides(), x.storage_offset());
  result._set_conj(x.is_conj());
  result._set_neg(x.is_neg());
  return result;
}

// Applies `change` to each tensor in `value`, and returns the result.
IValue with_tensors(const IValue& value, function_ref<Tensor(const Tensor&)> change) {
  if (value.isTensor()) return change(value.toTensor());
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& x : value.toTensorVector()) list.push_back(change(x));
    return list;
  }
  if (!value.isOptionalTensorList()) return value;
  c10::List<std::optional<Tensor>> list;
  for (const std::optional<Tensor>& x : value.toOptionalTensorVector()) {
    list.push_back(x ? std::optional<Tensor>(change(*x)) : std::nullopt);
  }
  return list;
}

// Runs every operator of the GPU on the CPU.
void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView nothing_is_recorded;
  std::vector<std::pair<Tensor, Tensor>> pairs;  // of the host, of the GPU
  const auto host_of = [&](const Tensor& x) -> Tensor {
    if (!x.defined() || (x.is_cpu() && x.dim() == 0)) return x;  // scalars may come from the CPU
    TORCH_CHECK(x.is_cuda(), op.operator_name(), " is given tensors of the GPU and of the ",
                x.device());
    pairs.emplace_back(moved(x, c10::kCPU), x);
    return pairs.back().first;
  };
  // Returns the tensor that was passed in if an operator writes in place.
  const auto gpu_of = [&](const Tensor& x) -> Tensor {
    if (!x.defined()) return x;
    const Tensor result = moved(x, kGpu);
    for (const auto& [host, gpu] : pairs) {
      if (!host.is_same(x)) continue;
      if (host.sizes() != gpu.sizes() || host.const_data_ptr() != gpu.const_data_ptr()) {
        auto* impl = gpu.unsafeGetTensorImpl();
        impl->set_storage_keep_dtype(result.storage());
        impl->set_sizes_and_strides(x.sizes(), x.strides(), x.storage_offset());
      }
      return gpu;
    }
    return result;
  };
  const size_t arguments = op.schema().arguments().size(), results = op.schema().returns().size();
  for (auto value = stack->end() - int64_t(arguments); value != stack->end(); ++value) {
    *value = value->isDevice() ? IValue(c10::Device(c10::kCPU)) : with_tensors(*value, host_of);
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  for (auto value = stack->end() - int64_t(results); value != stack->end(); ++value) {
    *value = with_tensors(*value, gpu_of);
  }
}

// Copies between CPU and GPU: the only operator that takes tensors of both devices.
Tensor& copy_here(Tensor& to, const Tensor& from, bool) {
  const at::AutoDispatchBelowADInplaceOrView nothing_is_recorded;
  Tensor target = to.is_cuda() ? moved(to, c10::kCPU) : to;
  target.copy_(from.is_cuda() ? moved(from, c10::kCPU) : from);
  return to;
}

TORCH_LIBRARY_IMPL(_, CUDA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("copy_", &copy_here);
  // Implements views here, because in inference mode a view must share the storage of its tensor.
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("view_as_complex", &at::native::view_as_complex);
}

C10_REGISTER_GUARD_IMPL(CUDA, Guard)

}  // namespace
}  // namespace tost::testing

namespace at {
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, tost::testing::Hooks)
}  // namespace at
#endif
