#include "tost/kinds/language/step_graph.h"

#include <algorithm>
#include <utility>

#include "tost/base/error.h"
#include "tost/nn/device_autocast.h"
#include "tost/nn/module_device.h"
#include "tost/nn/working_copy.h"

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

Tensor LanguageGraphs::extend(const Tensor& ids, LanguageState& state) {
  if (!possible_ || ids.dim() != 2 || ids.size(1) != 1 || ids.size(0) == 0) return {};
  if (state.position == 0 || state.blocks.size() != model_.blocks().size()) return {};
  check_ids(model_.config(), ids, state.position);
  Resident* resident = resident_for(state);
  if (resident == nullptr) return {};
  const int64_t before = resident->call->replays();
  const Tensor logits = (*resident->call)({ids})[0];
  replays_ += resident->call->replays() - before;
  ++resident->position;
  ++state.position;
  state.blocks = resident->blocks;
  possible_ = resident->call->by_graphs();
  if (!possible_) residents_.clear();
  return logits;
}

// The state itself, where it is resident and nobody else holds it; else a copy of it.
LanguageGraphs::Resident* LanguageGraphs::resident_for(const LanguageState& state) {
  const auto is_same = [](const Tensor& a, const Tensor& b) { return a.is_same(b); };
  for (auto at = residents_.begin(); at != residents_.end(); ++at) {
    const Resident& one = **at;
    const size_t holders = most_holders(one.blocks);
    if (one.position != state.position || (holders != 2 && holders != 0)) continue;
    if (!matches(one.blocks, state.blocks, is_same)) continue;
    residents_.splice(residents_.begin(), residents_, at);
    return residents_.front().get();
  }
  Resident* place = place_for(state);
  if (place == nullptr) return nullptr;
  copy(state.blocks, place->blocks);
  place->place.fill_(state.position);
  place->position = state.position;
  return place;
}

// Of a resident of these shapes that nobody holds any more, or a new one, the first of the list.
// Null where all there may be are held.
LanguageGraphs::Resident* LanguageGraphs::place_for(const LanguageState& state) {
  auto unused = residents_.end();  // the one used least recently
  for (auto at = residents_.begin(); at != residents_.end(); ++at) {
    if (most_holders((*at)->blocks) > 1) continue;
    unused = at;
    if (!matches((*at)->blocks, state.blocks, same_shape)) continue;
    residents_.splice(residents_.begin(), residents_, at);
    return residents_.front().get();
  }
  if (residents_.size() < kMostStates) return new_resident(state);
  if (unused != residents_.end()) {
    residents_.erase(unused);
    return new_resident(state);
  }
  if (!demanded_) return nullptr;
  fail_usage("graphs on decodes ", kMostStates,
             " states at a time, and this is one more; use graphs auto or off.");
}

LanguageGraphs::Resident* LanguageGraphs::new_resident(const LanguageState& state) {
  auto made = std::make_unique<Resident>();
  Resident* one = made.get();
  const torch::Device device = device_of(model_);
  for (const MixerState& block : state.blocks) {
    MixerState& own = one->blocks.emplace_back();
    for (const auto& [name, tensor] : block) {
      own[name] = torch::empty(tensor.sizes(), tensor.options().device(device));
    }
  }
  one->place = torch::empty({1}, torch::dtype(torch::kLong).device(device));
  one->call = std::make_unique<GraphedCall>(device, true, [this, one](const Tensors& ids) {
    Tensors logits;
    step(*one, ids, logits);
    return logits;
  });
  if (demanded_) one->call->demand_graphs();
  residents_.push_front(std::move(made));
  return one;
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
