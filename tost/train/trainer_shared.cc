// What the trainers of a run's processes send each other in addition to gradients.
#include <cmath>

#include "tost/base/random.h"
#include "tost/base/text.h"
#include "tost/io/parse_json.h"
#include "tost/nn/state_dict.h"
#include "tost/train/trainer.h"

namespace tost {

using torch::Tensor;

namespace {

// Of process 0, also where a tensor does not lie in the usual order of dimensions.
void broadcast_values(Group& group, const std::map<std::string, Tensor>& tensors) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.numel() == 0) continue;
    const Tensor sent = tensor.detach().contiguous();
    group.broadcast(sent);
    tensor.detach().copy_(sent);  // also where that is the same memory: it says that it was written
  }
}

}  // namespace

// With shards the moments of process 0 are all zero before the first step of a run that did not
// resume, as they are elsewhere.
void Trainer::send_state() {
  broadcast_values(*group_, state_dict(task_.model()));
  if (!shards_) {
    broadcast_values(*group_, optimizer_.state());
    if (ema_) broadcast_values(*group_, ema_->average());
    return;
  }
  if (group_->any(!to_send_.moments.empty())) {
    StateDict moments = shards_->mine("exp_avg.", to_send_.moments);
    moments.merge(shards_->mine("exp_avg_sq.", to_send_.moments));
    moments.merge(shards_->my_numbers("step.", to_send_.moments));
    optimizer_.load_state(moments);
  }
  if (ema_) {
    StateDict average = averaged_values();  // the buffers among it are replaced below
    if (group_->any(!to_send_.average.empty())) {
      for (auto& [name, slice] : shards_->mine("", to_send_.average)) average[name] = slice;
      for (auto& [name, value] : shards_->rest_of(state_dict(task_.model()))) {
        average[name] = first() ? to_send_.average.at(name).clone() : value.clone();
        group_->broadcast(average[name]);
      }
    }
    ema_->load(average);
  }
  to_send_ = {};
}

StateDict Trainer::averaged_values() const {
  const StateDict all = state_dict(task_.model());
  return shards_ ? shards_->slices_of(all) : all;
}

StateDict Trainer::evaluated_weights() const {
  if (!ema_ || !config_.evaluate_ema) return {};
  if (!shards_) return ema_->average();
  StateDict average = shards_->whole("", ema_->average(), /*everywhere=*/true);
  average.merge(shards_->rest_of(ema_->average()));
  return average;
}

Checkpoint Trainer::whole_checkpoint() const {
  if (!shards_) return checkpoint();
  const StateDict own = optimizer_.state();
  StateDict moments = shards_->whole("exp_avg.", own, /*everywhere=*/false);
  moments.merge(shards_->whole("exp_avg_sq.", own, /*everywhere=*/false));
  moments.merge(shards_->whole_numbers("step.", own));
  StateDict average;
  if (ema_) {
    average = shards_->whole("", ema_->average(), /*everywhere=*/false);
    average.merge(shards_->rest_of(ema_->average()));
  }
  return make_checkpoint(state_, task_.model(), task_.model_metadata(), std::move(moments),
                         ema_ ? &average : nullptr);
}

// What a checkpoint holds; with shards, send_state() gives it out.
void Trainer::load(const Restored& restored) {
  state_ = restored.state;
  if (shards_) {
    to_send_ = restored;
    return;
  }
  if (ema_) ema_->load(restored.average);
  optimizer_.load_state(restored.moments);
}

// False where there is none. With a group, process 0 reads it; send_state() follows.
bool Trainer::restore_newest(int64_t last_step) {
  const auto restore = [&] {
    std::vector<std::string> messages;
    const std::optional<Checkpoint> checkpoint = store_->load_newest(messages, last_step);
    for (const std::string& message : messages) listener_.on_message(message);
    if (checkpoint)
      load(restore_model(*checkpoint, store_->directory(), task_.model(), ema_ != nullptr));
    return checkpoint.has_value();
  };
  if (group_ == nullptr) return restore();
  const std::string state =
      group_->by_first([&] { return restore() ? json_text(to_json(state_)) : ""; });
  if (state.empty()) return false;
  if (!first()) {
    state_ = loop_state_from_json(parse_json(state, "the state of rank 0"), "the state of rank 0");
  }
  return true;
}

// Over the processes. One of them may have left out batches after a bad one.
void Trainer::add_up(StepSums& sums) {
  const StepTotals totals = shared_->finish({.loss = sums.loss,
                                             .samples = sums.samples,
                                             .correct = sums.correct,
                                             .stop = stop_ && stop_->load()});
  sums.loss = totals.loss;
  sums.samples = totals.samples;
  sums.correct = totals.correct;
  stop_agreed_ = totals.stop;
  if (!std::isfinite(sums.loss)) in_epoch_ = false;
}

void Trainer::seed_noise(int64_t batch) const {
  constexpr uint64_t kNoiseStream = 0x6e6f697365;  // "noise"
  const auto place = uint64_t(data_step() * config_.accumulate + batch);
  const BatchShare share = shared_ ? shared_->share() : BatchShare();
  const auto part = uint64_t(share.part() * share.token_parts + share.token_part);
  torch::manual_seed(Random(uint64_t(config_.seed) ^ kNoiseStream, place, part).next());
}

bool Trainer::has_checkpoint() {
  settle_saves();
  const bool there = store_ && !store_->list().empty();
  return group_ == nullptr ? there : group_->any(there);
}

// Largest of a process, and what one process alone would have.
void Trainer::report_shards() {
  int64_t own = tensor_bytes(optimizer_.state()), whole = 0;
  for (const Tensor& p : task_.model().parameters()) {
    if (p.requires_grad()) whole += int64_t(p.nbytes()) * (ema_ ? 3 : 2);
  }
  if (ema_) own += tensor_bytes(ema_->average()) - tensor_bytes(shards_->rest_of(ema_->average()));
  const auto most = group_->gather(torch::full({1}, own, torch::kLong)).max().item<int64_t>();
  listener_.on_message(cat("The optimizer's state takes ", human_bytes(most), " a process, ",
                           format_text("%.3f", double(most) / double(whole)), " of ",
                           human_bytes(whole), "."));
}

}  // namespace tost
