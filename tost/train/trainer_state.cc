#include "tost/train/trainer_state.h"

#include <cmath>
#include <limits>

#include "tost/base/error.h"
#include "tost/engine/run_layout.h"
#include "tost/nn/module_device.h"

namespace tost {
namespace {

using torch::Tensor;

constexpr char kGeneratorKey[] = "random.cpu", kGpuGeneratorKey[] = "random.cuda";

// The generators that a model on `device` uses, by their keys.
std::vector<std::pair<std::string, torch::Device>> generators(torch::Device device) {
  std::vector<std::pair<std::string, torch::Device>> all{{kGeneratorKey, torch::kCPU}};
  if (!device.is_cpu()) all.emplace_back(kGpuGeneratorKey, device);
  return all;
}

// A GPU's generator has a state only if the run was on a GPU, and only a GPU uses it.
void restore_generators(StateDict& state, torch::Device device) {
  for (const auto& [key, drawn_on] : generators(device)) {
    const auto found = state.find(key);
    if (found == state.end() && key == kGpuGeneratorKey) continue;
    const Tensor now = generator_state(drawn_on);
    if (found == state.end() || found->second.scalar_type() != torch::kByte ||
        found->second.sizes() != now.sizes()) {
      fail_data("The optimizer state lacks a valid tensor '", key,
                "' (the state of torch's generator).");
    }
    set_generator_state(drawn_on, found->second);
  }
  state.erase(kGeneratorKey);
  state.erase(kGpuGeneratorKey);
}

const CheckpointPart& part_of(const Checkpoint& checkpoint, const char* file,
                              const std::filesystem::path& where) {
  for (const CheckpointPart& part : checkpoint.parts) {
    if (part.file == file) return part;
  }
  fail_data("The checkpoint of step ", checkpoint.step, " in '", where.string(), "' has no ", file,
            ".");
}

}  // namespace

Checkpoint make_checkpoint(const LoopState& state, const torch::nn::Module& model,
                           const std::map<std::string, std::string>& metadata, StateDict moments,
                           const StateDict* average) {
  Checkpoint checkpoint{.step = state.step, .parts = {}, .state = to_json(state)};
  checkpoint.parts.push_back({kModelFile, state_dict(model), metadata});
  if (average) checkpoint.parts.push_back({kEmaFile, *average, metadata});
  for (const auto& [key, device] : generators(device_of(model))) {
    moments[key] = generator_state(device);
  }
  checkpoint.parts.push_back({kOptimizerFile, std::move(moments), {}});
  return checkpoint;
}

std::optional<std::string> first_not_finite(const Checkpoint& checkpoint) {
  std::vector<Tensor> tensors;
  std::vector<std::string> names;
  for (const CheckpointPart& part : checkpoint.parts) {
    for (const auto& [name, tensor] : part.tensors) {
      if (!tensor.is_floating_point() || tensor.numel() == 0) continue;
      tensors.push_back(tensor);
      names.push_back(cat("tensor '", name, "' of ", part.file));
    }
  }
  if (tensors.empty()) return std::nullopt;
  const torch::NoGradGuard no_grad;
  // The largest magnitude. The maximum is finite if and only if all numbers are; unlike a sum it
  // never overflows.
  const auto largest = at::_foreach_norm(tensors, std::numeric_limits<double>::infinity());
  std::vector<Tensor> numbers;
  for (const Tensor& one : largest) numbers.push_back(one.to(torch::kDouble));
  const Tensor host = torch::stack(numbers).cpu();
  const auto* value = host.const_data_ptr<double>();
  for (size_t i = 0; i < names.size(); ++i) {
    if (!std::isfinite(value[i])) return names[i] + " holds a number that is not finite";
  }
  return std::nullopt;
}

Restored restore_model(const Checkpoint& checkpoint, const std::filesystem::path& where,
                       torch::nn::Module& model, bool averaged) {
  Restored restored{
      .state = loop_state_from_json(checkpoint.state,
                                    where / checkpoint_name(checkpoint.step) / kStateFile),
      .moments = part_of(checkpoint, kOptimizerFile, where).tensors,
      .average = averaged ? part_of(checkpoint, kEmaFile, where).tensors : StateDict{}};
  load_state_dict(model, part_of(checkpoint, kModelFile, where).tensors);
  restore_generators(restored.moments, device_of(model));
  return restored;
}

StepStart::StepStart(const torch::nn::Module& model) {
  for (const auto& [key, device] : generators(device_of(model))) {
    generators_.emplace_back(device, generator_state(device));
  }
  for (const Tensor& buffer : model.buffers()) buffers_.emplace_back(buffer, buffer.clone());
}

void StepStart::restore_buffers() const {
  const torch::NoGradGuard no_grad;
  for (const auto& [buffer, copy] : buffers_) Tensor(buffer).copy_(copy);
}

void StepStart::restore_generators() const {
  for (const auto& [device, state] : generators_) set_generator_state(device, state);
}

EvaluationWeights::EvaluationWeights(torch::nn::Module& model, const StateDict& average)
    : model_(model) {
  model_.eval();
  if (average.empty()) return;
  for (const auto& [name, value] : state_dict(model)) weights_[name] = value.clone();
  load_state_dict(model, average);
}

EvaluationWeights::~EvaluationWeights() {
  if (!weights_.empty()) load_state_dict(model_, weights_);
  model_.train();
}

}  // namespace tost
