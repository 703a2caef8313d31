#include "tost/ops/graphed_call.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <utility>

#include "tost/base/error.h"

namespace tost {
namespace {

// Equal for tensors that one graph can serve.
std::vector<int64_t> key_of(const Tensors& tensors) {
  std::vector<int64_t> key;
  for (const at::Tensor& x : tensors) {
    key.push_back(x.defined() ? x.dim() : -1);
    if (!x.defined()) continue;
    key.push_back(int64_t(x.scalar_type()));
    key.insert(key.end(), x.sizes().begin(), x.sizes().end());
    key.insert(key.end(), x.strides().begin(), x.strides().end());
  }
  return key;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

GraphedCall::GraphedCall(at::Device device, bool graphs, Function function)
    : device_(device), graphs_(graphs), function_(std::move(function)) {}

Tensors GraphedCall::operator()(const Tensors& given) {
  Form* form = graphs_ ? form_of(given) : nullptr;
  if (form == nullptr) return function_(given);
  take(*form, given);
  if (form->captured || (form->runs >= kWarmUps && capture(*form))) {
    form->graph->replay();
    ++replays_;
    return form->results;
  }
  if (!graphs_) return function_(given);
  ++form->runs;
  Tensors results;
  form->graph->warm_up([&] { results = function_(form->given); });
  return results;
}

GraphedCall::Form* GraphedCall::form_of(const Tensors& given) {
  const auto key = key_of(given);
  const auto found = forms_.find(key);
  if (found != forms_.end()) return &found->second;
  if (forms_.size() >= kMostShapes) {
    if (demanded_ || !std::exchange(shapes_told_, true)) {
      give_way(cat("there are graphs for ", kMostShapes, " sets of shapes, and this is one more"));
    }
    return nullptr;
  }
  Form form;
  form.graph = forms_.empty() ? make_device_graph(device_) : forms_.begin()->second.graph->beside();
  for (const at::Tensor& x : given) {
    form.given.push_back(x.defined() ? at::empty_like(x, x.options().device(device_)) : x);
  }
  return &forms_.emplace(key, std::move(form)).first->second;
}

void GraphedCall::take(Form& form, const Tensors& given) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < given.size(); ++i) {
    const at::Tensor& x = given[i];
    if (!x.defined() || x.numel() == 0) continue;
    form.given[i].copy_(x.is_cpu() ? x.pin_memory() : x, /*non_blocking=*/true);
  }
}

bool GraphedCall::capture(Form& form) {
  before_capture_();
  try {
    form.graph->capture([&] { form.results = function_(form.given); });
    return form.captured = true;
  } catch (const c10::Error& error) {
    graphs_ = false;
    forms_.clear();
    give_way(first_line(error.what_without_backtrace()));
    return false;
  }
}

void GraphedCall::give_way(const std::string& why) {
  if (demanded_) fail_usage("graphs on cannot be: ", why, "; use graphs auto or off.");
  complaint_ =
      cat(graphs_ ? "Some of it runs without graphs: " : "It runs without graphs: ", why, ".");
}

}  // namespace tost
