#include "tost/train/trainer_state.h"

#include <ATen/CPUGeneratorImpl.h>

#include "tost/base/error.h"
#include "tost/eval/run_layout.h"

namespace tost {
namespace {

using torch::Tensor;

constexpr char kGeneratorKey[] = "random.cpu";

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

void restore_generator(const StateDict& state) {
  const auto found = state.find(kGeneratorKey);
  const Tensor now = generator_state();
  if (found == state.end() || found->second.scalar_type() != torch::kByte ||
      found->second.sizes() != now.sizes()) {
    fail_data("The optimizer state lacks a valid tensor '", kGeneratorKey,
              "' (the state of torch's generator).");
  }
  set_generator(found->second);
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
                           const std::map<std::string, std::string>& metadata,
                           const AdamW& optimizer, const Ema* ema) {
  Checkpoint checkpoint{.step = state.step, .parts = {}, .state = to_json(state)};
  checkpoint.parts.push_back({kModelFile, state_dict(model), metadata});
  if (ema) checkpoint.parts.push_back({kEmaFile, ema->average(), metadata});
  StateDict moments = optimizer.state();
  moments[kGeneratorKey] = generator_state();
  checkpoint.parts.push_back({kOptimizerFile, std::move(moments), {}});
  return checkpoint;
}

LoopState restore_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& where,
                             torch::nn::Module& model, AdamW& optimizer, Ema* ema) {
  const LoopState state =
      loop_state_from_json(checkpoint.state, where / checkpoint_name(checkpoint.step) / kStateFile);
  load_state_dict(model, part_of(checkpoint, kModelFile, where).tensors);
  if (ema) ema->load(part_of(checkpoint, kEmaFile, where).tensors);
  StateDict moments = part_of(checkpoint, kOptimizerFile, where).tensors;
  restore_generator(moments);
  moments.erase(kGeneratorKey);
  optimizer.load_state(moments);
  return state;
}

StepStart::StepStart(const torch::nn::Module& model) : generator_(generator_state()) {
  for (const Tensor& buffer : model.buffers()) buffers_.emplace_back(buffer, buffer.clone());
}

void StepStart::restore_buffers() const {
  const torch::NoGradGuard no_grad;
  for (const auto& [buffer, copy] : buffers_) Tensor(buffer).copy_(copy);
}

void StepStart::restore_generator() const {
  set_generator(generator_);
}

EvaluationWeights::EvaluationWeights(torch::nn::Module& model, const Ema* ema) : model_(model) {
  model_.eval();
  if (!ema) return;
  for (const auto& [name, value] : state_dict(model)) own_[name] = value.clone();
  load_state_dict(model, ema->average());
}

EvaluationWeights::~EvaluationWeights() {
  if (!own_.empty()) load_state_dict(model_, own_);
  model_.train();
}

}  // namespace tost
