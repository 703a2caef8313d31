#include "tost/testing/stand_in_gpu.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/_scaled_dot_product_attention_math_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/masked_fill.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/library.h>

#include <limits>
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

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* data = c10::alloc_cpu(bytes);
    return {data, data, &c10::free_cpu, kGpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &c10::free_cpu; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};
Memory memory;

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
  int getNumGPUs() const override { return 1; }
  c10::DeviceIndex current_device() const override { return 0; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
  void deviceSynchronize(c10::DeviceIndex) const override {}
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(0);
    return generator;
  }
};

// The same memory, on another device; the result keeps it alive.
Tensor moved(const Tensor& x, c10::Device device, c10::Allocator* allocator) {
  auto* held = new Tensor(x);
  const auto release = [](void* context) { delete static_cast<Tensor*>(context); };
  c10::Storage storage(c10::Storage::use_byte_size_t(), x.storage().nbytes(),
                       c10::DataPtr(x.storage().mutable_data(), held, release, device), allocator,
                       /*resizable=*/true);
  const auto key = device.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  auto result = at::detail::make_tensor<c10::TensorImpl>(std::move(storage),
                                                         c10::DispatchKeySet(key), x.dtype());
  result.unsafeGetTensorImpl()->set_sizes_and_strides(x.sizes(), x.strides(), x.storage_offset());
  result._set_conj(x.is_conj());
  result._set_neg(x.is_neg());
  return result;
}

// `value`, with `change` in place of each tensor in it.
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

// The same memory as a tensor of the CPU.
Tensor on_host(const Tensor& x) {
  return moved(x, c10::kCPU, c10::GetCPUAllocator());
}

Tensor on_gpu(const Tensor& x) {
  return x.defined() ? moved(x, kGpu, &memory) : x;
}

// Replaces every operator that has no kernel for CUDA.
class Call {
 public:
  explicit Call(const c10::OperatorHandle& op) : op_(op) {}

  IValue argument(const IValue& value) {
    if (value.isDevice()) return c10::Device(c10::kCPU);
    return with_tensors(value, [this](const Tensor& x) { return host_of(x); });
  }

  IValue result(const IValue& value) const {
    return with_tensors(value, [this](const Tensor& x) { return gpu_of(x); });
  }

 private:
  Tensor host_of(const Tensor& x) {
    if (!x.defined() || (x.is_cpu() && x.dim() == 0)) return x;  // scalars may come from the CPU
    TORCH_CHECK(x.is_cuda(), op_.operator_name(), " is given tensors of the GPU and of the ",
                x.device());
    pairs_.emplace_back(on_host(x), x);
    return pairs_.back().first;
  }

  // A tensor written in place must be the argument itself.
  Tensor gpu_of(const Tensor& x) const {
    for (const auto& [host, gpu] : pairs_) {
      if (!host.is_same(x)) continue;
      if (host.sizes() != gpu.sizes() || host.const_data_ptr() != gpu.const_data_ptr()) {
        const Tensor grown = on_gpu(x);
        auto* impl = gpu.unsafeGetTensorImpl();
        impl->set_storage_keep_dtype(grown.storage());
        impl->set_sizes_and_strides(x.sizes(), x.strides(), x.storage_offset());
      }
      return gpu;
    }
    return on_gpu(x);
  }

  const c10::OperatorHandle& op_;
  std::vector<std::pair<Tensor, Tensor>> pairs_;
};

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView nothing_is_recorded;
  const size_t arguments = op.schema().arguments().size(), results = op.schema().returns().size();
  Call call(op);
  for (auto value = stack->end() - int64_t(arguments); value != stack->end(); ++value) {
    *value = call.argument(*value);
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  for (auto value = stack->end() - int64_t(results); value != stack->end(); ++value) {
    *value = call.result(*value);
  }
}

Tensor empty_here(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                  std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                  std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &memory, c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   c10::dtype_or_default(dtype), format);
}

Tensor empty_strided_here(at::IntArrayRef size, at::IntArrayRef stride,
                          std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                          std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &memory,
                                           c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                           c10::dtype_or_default(dtype));
}

// The one operator that tensors of both take part in.
Tensor& copy_here(Tensor& to, const Tensor& from, bool) {
  const at::AutoDispatchBelowADInplaceOrView nothing_is_recorded;
  Tensor target = to.is_cuda() ? on_host(to) : to;
  target.copy_(from.is_cuda() ? on_host(from) : from);
  return to;
}

const Tensor& resize_here(const Tensor& x, at::IntArrayRef size, std::optional<at::MemoryFormat>) {
  auto* self = x.unsafeGetTensorImpl();
  self->set_sizes_contiguous(size);
  const size_t bytes = size_t(x.numel()) * x.element_size();
  if (x.storage().nbytes() < bytes) {
    self->unsafe_storage().set_data_ptr_noswap(memory.allocate(bytes));
    self->unsafe_storage().set_nbytes(bytes);
  }
  return x;
}

// The definition in place of a choice among kernels that are not there.
Tensor attention_here(const Tensor& q, const Tensor& k, const Tensor& v,
                      const std::optional<Tensor>& mask, double dropout, bool causal,
                      std::optional<double> scale, bool grouped) {
  std::optional<Tensor> added = mask;
  if (mask && mask->scalar_type() == at::kBool) {
    const double hidden = -std::numeric_limits<double>::infinity();
    added = at::zeros_like(*mask, q.options()).masked_fill(mask->logical_not(), hidden);
  }
  return std::get<0>(at::native::_scaled_dot_product_attention_math(q, k, v, added, dropout, causal,
                                                                    std::nullopt, scale, grouped));
}

TORCH_LIBRARY_IMPL(_, CUDA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", &empty_here);
  m.impl("empty_strided", &empty_strided_here);
  m.impl("copy_", &copy_here);
  m.impl("resize_", &resize_here);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("view_as_complex", &at::native::view_as_complex);
  m.impl("scaled_dot_product_attention", &attention_here);
}

TORCH_LIBRARY_IMPL(aten, AutogradCUDA, m) {
  m.impl("scaled_dot_product_attention", &attention_here);
}

C10_REGISTER_GUARD_IMPL(CUDA, Guard)

}  // namespace
}  // namespace tost::testing

namespace at {
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, tost::testing::Hooks)
}  // namespace at
#endif
