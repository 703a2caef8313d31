// Graphs of the device that stands in for a GPU, with what a CUDA graph does to a program:
// capturing runs nothing, and leaves NaN (in integers 0) where results will be; a replay
// repeats the same calls on the same memory, with the host's numbers as they were; what waits for
// the device, or brings memory of the host, cannot be captured.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "tost/base/function_ref.h"

namespace tost::testing {

// Whether calls are to be recorded now, on any thread.
bool tape_runs();
// In place of running the operator on `stack`, and of a copy: what is on the stack afterwards has
// the shape of the results.
void record_call(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void record_copy(const at::Tensor& to, const at::Tensor& from);
// What memory holds that nothing was computed into yet.
void spoil(const at::Tensor& x);

// stand_in_gpu.cc: the operator by the CPU's kernels, on copies of what it is given or on that
// itself.
void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack, bool on_copies);
// `value`, with `change` in place of each tensor in it.
c10::IValue with_tensors(const c10::IValue& value,
                         function_ref<at::Tensor(const at::Tensor&)> change);
// The same memory as a tensor of the CPU.
at::Tensor on_host(const at::Tensor& x);

}  // namespace tost::testing
