// Stores the whole state of a training run in a checkpoint, and restores it.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tost/nn/state_dict.h"
#include "tost/store/checkpoint_store.h"
#include "tost/train/adamw.h"
#include "tost/train/ema.h"
#include "tost/train/loop_state.h"

namespace tost {

// The files model.safetensors and ema.safetensors (with `metadata`), optimizer.safetensors
// (moments, and generators as "random.cpu" and "random.cuda") and state.json. The tensors share
// memory with the run, so they must be written before the next step. `moments`: AdamW::state().
// `average` may be null.
Checkpoint make_checkpoint(const LoopState& state, const torch::nn::Module& model,
                           const std::map<std::string, std::string>& metadata, StateDict moments,
                           const StateDict* average);

// Returns "tensor 'x' of model.safetensors holds a number that is not finite" for the first such
// tensor; nothing if all are finite.
std::optional<std::string> first_not_finite(const Checkpoint& checkpoint);

// The content of a checkpoint in addition to the model and torch's generators.
struct Restored {
  LoopState state;
  StateDict moments, average;  // average: empty if none is wanted
};

// Restores the model and the generators. Throws a data Error naming a part or tensor that does not
// fit; `where` is for messages.
Restored restore_model(const Checkpoint& checkpoint, const std::filesystem::path& where,
                       torch::nn::Module& model, bool averaged);

// The state that a forward pass changes, which is the model's buffers and torch's generators.
class StepStart {
 public:
  explicit StepStart(const torch::nn::Module& model);  // a copy of both
  void restore_buffers() const;
  void restore_generators() const;

 private:
  std::vector<std::pair<torch::Tensor, torch::Tensor>> buffers_;  // the model's, and its copy
  std::vector<std::pair<torch::Device, torch::Tensor>> generators_;
};

// While in scope, the model is in evaluation mode and has the averaged weights, unless the state is
// empty. The destructor restores everything bit for bit.
class EvaluationWeights {
 public:
  EvaluationWeights(torch::nn::Module& model, const StateDict& average);
  ~EvaluationWeights();
  EvaluationWeights(const EvaluationWeights&) = delete;
  EvaluationWeights& operator=(const EvaluationWeights&) = delete;

 private:
  torch::nn::Module& model_;
  StateDict weights_;
};

}  // namespace tost
