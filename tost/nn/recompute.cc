#include "tost/nn/recompute.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/nn/block.h"
#include "tost/nn/device_autocast.h"
#include "tost/nn/token_sums_scope.h"
#include "tost/ops/device.h"

namespace tost {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Run = std::function<Tensor(const Tensor&)>;

// The generator as it was, and as it is now again afterwards.
class Replayed {
 public:
  Replayed(at::Device device, const Tensor& state)
      : device_(device), now_(generator_state(device)) {
    set_generator_state(device_, state);
  }
  ~Replayed() { set_generator_state(device_, now_); }
  Replayed(const Replayed&) = delete;
  Replayed& operator=(const Replayed&) = delete;

 private:
  const at::Device device_;
  const Tensor now_;
};

// With the sums of the forward pass: backward on a GPU has a thread of its own.
struct HeldRun : torch::CustomClassHolder {
  explicit HeldRun(Run run) : run(std::move(run)) {}
  Run run;
  const TokenSums* sums = TokenSumsScope::current();
};

class RecomputedFunction : public torch::autograd::Function<RecomputedFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Run& run) {
    context->save_for_backward({x});
    context->saved_data["random"] = generator_state(x.device());
    context->saved_data["autocast"] = at::autocast::is_autocast_enabled(x.device().type());
    context->saved_data["run"] = c10::IValue::make_capsule(c10::make_intrusive<HeldRun>(run));
    const NoCastCache fresh;
    return run(x);  // gradients are off in here
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    if (torch::GradMode::is_enabled()) {
      fail_usage(
          "What is computed again in backward cannot be differentiated twice; leave recompute at "
          "none.");
    }
    const Tensor x = context->get_saved_variables()[0].detach().requires_grad_(true);
    const auto held =
        c10::static_intrusive_pointer_cast<HeldRun>(context->saved_data["run"].toCapsule());
    Tensor y;
    {
      const Replayed random(x.device(), context->saved_data["random"].toTensor());
      const bool cast = context->saved_data["autocast"].toBool();
      const TokenSumsScope sums(held->sums);
      const DeviceAutocast autocast(cast ? Autocast::kBfloat16 : Autocast::kOff, x.device().type());
      const NoCastCache fresh;
      const torch::AutoGradMode with_gradients(true);
      y = held->run(x);
    }
    y.backward(grads[0]);
    return {x.grad(), Tensor()};
  }
};

}  // namespace

std::vector<std::string> recompute_names() {
  return {"none", "mlp", "block"};
}

Recompute recompute_from_name(const std::string& name) {
  const auto names = recompute_names();
  const auto place = std::find(names.begin(), names.end(), name);
  if (place != names.end()) return static_cast<Recompute>(place - names.begin());
  fail_usage("Unknown recompute '", name, "'; use ", join(names, ", "), ".",
             did_you_mean(name, names));
}

void set_recompute(torch::nn::Module& module, Recompute recompute) {
  for (const auto& block : blocks_of(module)) block->recompute = recompute;
}

Tensor recomputed(const Run& run, const Tensor& x) {
  if (!torch::GradMode::is_enabled() || !x.requires_grad()) return run(x);
  return RecomputedFunction::apply(x, run);
}

}  // namespace tost
