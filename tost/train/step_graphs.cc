#include "tost/train/step_graphs.h"

#include "tost/base/error.h"
#include "tost/nn/precision.h"
#include "tost/nn/state_dict.h"

namespace tost {

using torch::Tensor;

StepGraphs::StepGraphs(TrainTask& task, AdamW& optimizer, Ema* ema, const LoopConfig& config,
                       torch::Device device)
    : task_(task),
      optimizer_(optimizer),
      ema_(ema),
      config_(config),
      device_(device),
      forward_backward_(device, true, [this](const Tensors& t) { return run_batch(t); }),
      update_(device, true, [this](const Tensors&) {
        optimizer_.apply(/*scaled=*/config_.clip > 0);
        if (ema_ != nullptr) ema_->update(state_dict(task_.model()));
        return Tensors{};
      }) {}

void StepGraphs::before_capture(const std::function<void()>& call) {
  forward_backward_.before_capture(call);
  update_.before_capture(call);
}

void StepGraphs::begin() {
  if (begun_) {
    optimizer_.clear_gradients();
  } else {
    optimizer_.zero_grad();
  }
  begun_ = true;
}

// Loss, norm and right predictions [3] float64: one copy to the host.
Tensors StepGraphs::run_batch(const Tensors& tensors) {
  TaskOutput found;
  {
    const PrecisionScope precision(config_.precision, device_);
    found = task_.compute(tensors);
  }
  (found.loss / double(config_.accumulate)).backward();
  const torch::NoGradGuard no_grad;
  const Tensor loss = found.loss.detach().to(torch::kDouble);
  const Tensor norm = optimizer_.gradient_norm_here();
  const Tensor correct = found.correct.defined() ? found.correct.to(torch::kDouble)
                                                 : torch::full({}, -1.0, loss.options());
  return {torch::stack(
      {loss, norm.defined() ? norm.to(torch::kDouble) : torch::zeros_like(loss), correct})};
}

StepGraphs::Batch StepGraphs::add_batch() {
  const TaskInput input = task_.take_input();
  const Tensor numbers = forward_backward_(input.tensors)[0].cpu();
  const auto* number = numbers.const_data_ptr<double>();
  return {.loss = number[0],
          .norm = number[1],
          .samples = input.samples,
          .correct = int64_t(number[2])};
}

void StepGraphs::update(double lr, double gradient_scale) {
  optimizer_.prepare(lr, gradient_scale);
  update_({});
}

std::string StepGraphs::take_complaint() {
  std::string complaint = forward_backward_.take_complaint();
  if (complaint.empty()) complaint = update_.take_complaint();
  if (complaint == said_) return {};  // what stops one of the two mostly stops both
  if (!complaint.empty()) said_ = complaint;
  return complaint;
}

bool steps_by_graphs(const LoopConfig& config, const TrainTask& task, torch::Device device) {
  if (!graphs_wanted(config.graphs, device)) return false;
  if (task.has_parts() && config.recompute != "block") return true;
  if (config.graphs != "on") return false;
  if (!task.has_parts())
    fail_usage("graphs on does not go with this kind of run; use auto or off.");
  fail_usage(
      "graphs on does not go with recompute block, which sets the random generator back within a "
      "step; use graphs auto or off, or another recompute.");
}

}  // namespace tost
