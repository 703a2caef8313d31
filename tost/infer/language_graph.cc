#include "tost/infer/language_graph.h"

#include <algorithm>
#include <utility>

#include "tost/base/error.h"
#include "tost/models/device_autocast.h"
#include "tost/models/module_device.h"
#include "tost/models/working_copy.h"

namespace tost {
namespace {

using torch::Tensor;

using Blocks = std::vector<MixerState>;

// Whether every tensor of one has its like, by `same`, in the other.
template <class Same>
bool matches(const Blocks& a, const Blocks& b, Same same) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size()) return false;
    for (const auto& [name, tensor] : a[i]) {
      const auto other = b[i].find(name);
      if (other == b[i].end() || !same(tensor, other->second)) return false;
    }
  }
  return true;
}

bool same_shape(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
}

void copy(const Blocks& from, Blocks& to) {
  for (size_t i = 0; i < from.size(); ++i) {
    for (const auto& [name, tensor] : from[i]) {
      Tensor& into = to[i][name];
      if (!into.is_same(tensor)) into.copy_(tensor);
    }
  }
}

// Holders of the state's tensors, of which none is shared with another tensor. 0: it has none.
size_t most_holders(const Blocks& blocks) {
  size_t most = 0;
  for (const MixerState& block : blocks) {
    for (const auto& [name, tensor] : block) most = std::max(most, tensor.use_count());
  }
  return most;
}

// Softmax remembers every token.
bool state_grows(const LanguageConfig& config) {
  return config.mixer == "softmax" || (config.hybrid_every > 0 && config.hybrid_mixer == "softmax");
}

}  // namespace

// A state in its place, and the step that moves it on.
struct LanguageGraphs::Resident {
  Blocks blocks;
  Tensor place;
  int64_t position = 0;
  std::unique_ptr<GraphedCall> call;
};

LanguageGraphs::LanguageGraphs(LanguageModel& model, bool bf16) : model_(model) {
  if (bf16) keep_working_copies(model, /*own_gradients=*/false);
}

int64_t LanguageGraphs::replays() const {
  int64_t sum = 0;
  for (const auto& resident : residents_) sum += resident->call->replays();
  return sum;
}

Tensor LanguageGraphs::extend(const Tensor& ids, LanguageState& state) {
  if (!possible_ || ids.dim() != 2 || ids.size(1) != 1 || ids.size(0) == 0) return {};
  if (state.position == 0 || state.blocks.size() != model_.blocks().size()) return {};
  model_.check_ids(ids, state.position);
  Resident* resident = resident_for(state);
  if (resident == nullptr) return {};
  const Tensor logits = (*resident->call)({ids})[0];
  ++resident->position;
  ++state.position;
  state.blocks = resident->blocks;
  possible_ = resident->call->by_graphs();
  return logits;
}

// The state itself, where it is resident and nobody else holds it; else a copy of it in the place
// of one that nobody holds any more, or in a new one.
LanguageGraphs::Resident* LanguageGraphs::resident_for(const LanguageState& state) {
  const auto is_same = [](const Tensor& a, const Tensor& b) { return a.is_same(b); };
  Resident* free = nullptr;
  for (const auto& resident : residents_) {
    const bool here = matches(resident->blocks, state.blocks, is_same);
    const size_t holders = most_holders(resident->blocks);
    if (here && resident->position == state.position && (holders == 2 || holders == 0)) {
      return resident.get();
    }
    if (holders <= 1 && matches(resident->blocks, state.blocks, same_shape)) free = resident.get();
  }
  if (free == nullptr) {
    if (residents_.size() >= kMostStates) {
      if (!demanded_) return nullptr;
      fail_usage("graphs on decodes ", kMostStates,
                 " states at a time, and this is one more; use graphs auto or off.");
    }
    free = residents_.emplace_back(std::make_unique<Resident>()).get();
    const torch::Device device = device_of(model_);
    for (const MixerState& block : state.blocks) {
      MixerState& own = free->blocks.emplace_back();
      for (const auto& [name, tensor] : block) {
        own[name] = torch::empty(tensor.sizes(), tensor.options().device(device));
      }
    }
    free->place = torch::empty({1}, torch::dtype(torch::kLong).device(device));
    free->call = std::make_unique<GraphedCall>(device, true, [this, free](const Tensors& ids) {
      Tensors logits;
      step(*free, ids, logits);
      return logits;
    });
    if (demanded_) free->call->demand_graphs();
  }
  copy(state.blocks, free->blocks);
  free->place.fill_(state.position);
  free->position = state.position;
  return free;
}

void LanguageGraphs::step(Resident& resident, const Tensors& ids, Tensors& logits) {
  const torch::NoGradGuard no_grad;
  const NoCastCache kept_by_nobody;
  LanguageState state{
      .position = resident.position, .blocks = resident.blocks, .place = resident.place};
  const Tensor last = model_.hidden(ids[0], &state);
  logits = {model_.logits(last.select(1, 0))};
  copy(state.blocks, resident.blocks);
  resident.place.add_(1);
}

std::shared_ptr<LanguageGraphs> read_by_graphs(const std::shared_ptr<LanguageModel>& model,
                                               bool bf16) {
  if (state_grows(model->config())) return nullptr;
  auto graphs = std::make_shared<LanguageGraphs>(*model, bf16);
  model->read_by(graphs);
  return graphs;
}

}  // namespace tost
