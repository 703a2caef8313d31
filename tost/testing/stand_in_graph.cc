#include "tost/testing/stand_in_graph.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <atomic>
#include <functional>
#include <limits>
#include <mutex>
#include <set>
#include <utility>

#include "tost/ops/device_graph.h"
#include "tost/testing/stand_in_gpu.h"

#if !defined(TOST_TEST_WITH_CUDA)
namespace tost::testing {
namespace {

using at::Tensor;
using c10::IValue;
using torch::jit::Stack;

struct Tape {
  std::mutex mutex;
  std::vector<std::function<void()>> steps;
  void add(std::function<void()> step) {
    const std::lock_guard<std::mutex> lock(mutex);
    steps.push_back(std::move(step));
  }
};
std::atomic<Tape*> running{nullptr};

// Keeps the memory of `x`, as it lies now, whatever becomes of `x`.
Tensor held(const Tensor& x) {
  if (!x.defined()) return x;
  if (x.is_cpu()) return x.clone();  // a number of the host, as it is now
  auto same = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(x.storage()), c10::DispatchKeySet(c10::DispatchKey::CUDA), x.dtype());
  same.unsafeGetTensorImpl()->set_sizes_and_strides(x.sizes(), x.strides(), x.storage_offset());
  same._set_conj(x.is_conj());
  same._set_neg(x.is_neg());
  return same;
}

IValue held(const IValue& value) {
  return with_tensors(value, [](const Tensor& x) { return held(x); });
}

std::vector<Tensor> tensors_in(const Stack& values) {
  std::vector<Tensor> all;
  for (const IValue& value : values) {
    if (value.isTensor()) all.push_back(value.toTensor());
    if (!value.isTensorList()) continue;
    for (const Tensor& x : value.toTensorVector()) all.push_back(x);
  }
  return all;
}

// Operators whose results have a size that depends on values, which a GPU waits for.
bool sized_by_values(const std::string& name, const Stack& arguments) {
  static const std::set<std::string> names{
      "aten::nonzero",  "aten::masked_select",      "aten::_unique",
      "aten::_unique2", "aten::unique_consecutive", "aten::unique_dim",
      "aten::bincount", "aten::repeat_interleave",  "aten::unique_dim_consecutive"};
  if (names.contains(name)) return true;
  if (!name.starts_with("aten::index") && !name.starts_with("aten::_index_put")) return false;
  for (const IValue& value : arguments) {
    if (!value.isOptionalTensorList()) continue;
    for (const std::optional<Tensor>& x : value.toOptionalTensorVector()) {
      if (x && x->defined() && (x->scalar_type() == at::kBool || x->scalar_type() == at::kByte)) {
        return true;
      }
    }
  }
  return false;
}

// Operators of solvers (cuSOLVER, MAGMA), which may wait for the device or copy to the host.
bool by_a_solver(const std::string& name) {
  static const std::set<std::string> plain{"aten::linalg_vector_norm", "aten::linalg_cross",
                                           "aten::linalg_solve_triangular"};
  static const std::set<std::string> others{"aten::geqrf", "aten::ormqr", "aten::cholesky",
                                            "aten::cholesky_inverse",
                                            "aten::_cholesky_solve_helper"};
  const bool linalg = name.starts_with("aten::linalg_") || name.starts_with("aten::_linalg_");
  return (linalg && !plain.contains(name)) || others.contains(name);
}

void check_capturable(const c10::OperatorHandle& op, const Stack& arguments) {
  TORCH_CHECK(!sized_by_values(op.operator_name().name, arguments), op.operator_name(),
              " has a size that depends on values, and cannot be captured");
  TORCH_CHECK(!by_a_solver(op.operator_name().name), op.operator_name(),
              " goes through a solver, and cannot be captured");
  for (const c10::Argument& result : op.schema().returns()) {
    const auto* alias = result.alias_info();
    TORCH_CHECK(alias == nullptr || alias->isWrite(), op.operator_name(),
                " gives a view, which the stand-in's graphs do not record");
  }
}

void run_again(const c10::OperatorHandle& op, const Stack& arguments, const Stack& results) {
  Stack stack = arguments;
  run_on_host(op, &stack, /*on_copies=*/false);
  const auto found = tensors_in(stack), wanted = tensors_in(results);
  const at::AutoDispatchBelowADInplaceOrView nothing_is_recorded;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i].defined() || wanted[i].const_data_ptr() == found[i].const_data_ptr()) continue;
    TORCH_CHECK(wanted[i].sizes() == found[i].sizes(), op.operator_name(),
                " gave another shape than when it was captured");
    on_host(wanted[i]).copy_(on_host(found[i]));
  }
}

class StandInGraph final : public DeviceGraph {
 public:
  void warm_up(function_ref<void()> work) override { work(); }
  void replay() override {
    for (const auto& step : tape_.steps) step();
  }
  std::unique_ptr<DeviceGraph> beside() const override { return std::make_unique<StandInGraph>(); }

 private:
  void record(function_ref<void()> work) override {
    TORCH_CHECK(!captures_refused(), "this device captures nothing");
    // The CPU's generator is the one this device's operators draw from.
    auto generator = at::detail::getDefaultCPUGenerator();
    const Tensor state = generator.get_state();
    running = &tape_;
    try {
      work();
    } catch (...) {
      running = nullptr;
      generator.set_state(state);
      tape_.steps.clear();
      throw;
    }
    running = nullptr;
    generator.set_state(state);
  }

  Tape tape_;
};

const GraphMakerSetter of_the_stand_in([](c10::Device) -> std::unique_ptr<DeviceGraph> {
  return std::make_unique<StandInGraph>();
});

}  // namespace

void spoil(const Tensor& x) {
  const at::AutoDispatchBelowADInplaceOrView nothing_is_recorded;
  if (x.is_floating_point() || x.is_complex()) {
    on_host(x).fill_(std::numeric_limits<double>::quiet_NaN());
  } else {
    on_host(x).zero_();
  }
}

bool tape_runs() {
  return running != nullptr;
}

void record_call(const c10::OperatorHandle& op, Stack* stack) {
  const auto count = int64_t(op.schema().arguments().size());
  Stack arguments;
  for (auto value = stack->end() - count; value != stack->end(); ++value) {
    arguments.push_back(held(*value));
  }
  check_capturable(op, arguments);
  const std::vector<Tensor> given = tensors_in(Stack(stack->end() - count, stack->end()));
  const size_t below = stack->size() - size_t(count);
  run_on_host(op, stack, /*on_copies=*/true);
  const Stack made(stack->begin() + int64_t(below), stack->end());
  Stack results;
  for (const IValue& value : made) {
    TORCH_CHECK(value.isTensor() || value.isTensorList() || value.isNone(), op.operator_name(),
                " gives the host a number, which waits for the device and cannot be captured");
    results.push_back(held(value));
  }
  for (const Tensor& x : tensors_in(made)) {
    bool in_place = !x.defined();
    for (const Tensor& y : given) in_place = in_place || y.is_same(x);
    if (!in_place) spoil(x);
  }
  running.load()->add([op, arguments, results] { run_again(op, arguments, results); });
}

void record_copy(const Tensor& to, const Tensor& from) {
  TORCH_CHECK(to.is_cuda() && from.is_cuda(), "a copy ", to.is_cuda() ? "from" : "to",
              " the host's memory cannot be captured");
  running.load()->add([to = held(to), from = held(from)] {
    const at::AutoDispatchBelowADInplaceOrView nothing_is_recorded;
    on_host(to).copy_(on_host(from));
  });
}

}  // namespace tost::testing
#endif
