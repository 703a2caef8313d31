#include "tost/models/recompute.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/models/block.h"
#include "tost/models/gpt_block.h"

namespace tost {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Run = std::function<Tensor(const Tensor&)>;

Tensor generator_state() {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_generator(const Tensor& state) {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

// The generator as it was, and as it is now again afterwards.
class Replayed {
 public:
  explicit Replayed(const Tensor& state) : now_(generator_state()) { set_generator(state); }
  ~Replayed() { set_generator(now_); }
  Replayed(const Replayed&) = delete;
  Replayed& operator=(const Replayed&) = delete;

 private:
  Tensor now_;
};

// Casts of weights are not cached meanwhile: one made without
// gradients would cut the weight off from its own.
class NoCastCache {
 public:
  NoCastCache() : before_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~NoCastCache() { at::autocast::set_autocast_cache_enabled(before_); }
  NoCastCache(const NoCastCache&) = delete;
  NoCastCache& operator=(const NoCastCache&) = delete;

 private:
  bool before_;
};

class Autocast {
 public:
  explicit Autocast(bool enabled) : before_(at::autocast::is_autocast_enabled(at::kCPU)) {
    at::autocast::set_autocast_enabled(at::kCPU, enabled);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, before_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool before_;
};

struct HeldRun : torch::CustomClassHolder {
  explicit HeldRun(Run run) : run(std::move(run)) {}
  Run run;
};

class RecomputedFunction : public torch::autograd::Function<RecomputedFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Run& run) {
    context->save_for_backward({x});
    context->saved_data["random"] = generator_state();
    context->saved_data["autocast"] = at::autocast::is_autocast_enabled(at::kCPU);
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
      const Replayed random(context->saved_data["random"].toTensor());
      const Autocast autocast(context->saved_data["autocast"].toBool());
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
  for (const auto& child : module.modules(/*include_self=*/true)) {
    if (auto* block = child->as<Block>()) block->recompute = recompute;
    if (auto* block = child->as<GptBlock>()) block->recompute = recompute;
  }
}

Tensor recomputed(const Run& run, const Tensor& x) {
  if (!torch::GradMode::is_enabled() || !x.requires_grad()) return run(x);
  return RecomputedFunction::apply(x, run);
}

}  // namespace tost
