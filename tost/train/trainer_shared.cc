// Messages between the trainers of a run's processes, in addition to gradients.
#include <cmath>

#include "tost/base/random.h"
#include "tost/base/text.h"
#include "tost/engine/run_layout.h"
#include "tost/io/parse_json.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/safetensors.h"
#include "tost/train/run_folder.h"
#include "tost/train/shared_save.h"
#include "tost/train/trainer.h"

namespace tost {

using torch::Tensor;

namespace {

// Broadcasts tensors of process 0, which need not be contiguous.
void broadcast_values(Group& group, const std::map<std::string, Tensor>& tensors) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.numel() == 0) continue;
    const Tensor sent = tensor.detach().contiguous();
    group.broadcast(sent);
    tensor.detach().copy_(sent);  // also where this is the same memory: the copy counts as a write
  }
}

}  // namespace

// Sends the state of the optimiser, except a divided state, of which every process has read a
// shard.
void Trainer::send_state() {
  broadcast_values(*group_, state_dict(task_.model()));
  if (!shards_) {
    broadcast_values(*group_, optimizer_.state());
    if (ema_) broadcast_values(*group_, ema_->average());
  } else if (ema_ && !restored_) {
    ema_->load(averaged_values());
  }
}

StateDict Trainer::averaged_values() const {
  const StateDict all = state_dict(task_.model());
  return shards_ ? shards_->slices_of(all) : all;
}

StateDict Trainer::evaluated_weights() const {
  if (!ema_ || !config_.evaluate_ema) return {};
  if (!shards_) return ema_->average();
  StateDict average = shards_->whole(ema_->average(), /*everywhere=*/true);
  average.merge(shards_->rest_of(ema_->average()));
  return average;
}

// A single process writes the files of a run without shards.
void Trainer::save_shards() {
  StateDict moments = shards_->shard_of(optimizer_.state());
  StateDict average;
  if (ema_) {
    average = shards_->whole(ema_->average(), /*everywhere=*/false);
    average.merge(shards_->rest_of(ema_->average()));
  }
  SharedCheckpoint checkpoint{.whole = {.step = state_.step}, .shard = {.step = state_.step}};
  if (first()) {
    checkpoint.whole = make_checkpoint(state_, task_.model(), task_.model_metadata(),
                                       std::move(moments), ema_ ? &average : nullptr);
    checkpoint.whole.keep_step = rollback_checkpoint();
    if (group_->world() == 1) return saver_->save_now(checkpoint.whole, best_is_new_);
    moments = std::move(checkpoint.whole.parts.back().tensors);  // with the generator's state
    checkpoint.whole.parts.pop_back();
    checkpoint.index = shards_->index_text(moments);
  }
  if (!moments.empty()) {
    const std::string file = optimizer_shard_name(group_->rank(), shards_->shards());
    checkpoint.shard.parts.push_back({file, std::move(moments), {}});
  }
  const SharedPlace place{.store = store_ ? &*store_ : nullptr,
                          .directory = run_ / kCheckpointFolder,
                          .pauses = retry_pauses(config_.save_retries)};
  const auto report = [this](const std::string& message) { listener_.on_message(message); };
  const auto folder = save_together(*group_, place, checkpoint, best_is_new_, report);
  if (!first()) return;
  remove_replaced_run(run_);
  listener_.on_checkpoint(folder);
}

// Runs the checks of process 0 on a checkpoint.
void Trainer::load_shards(const std::filesystem::path& folder) {
  optimizer_.load_state(shards_->my_moments(load_optimizer(folder)));
  if (!ema_) return;
  const StateDict whole = load_safetensors(folder / kEmaFile).tensors;
  StateDict average = shards_->local_part("", whole);
  average.merge(shards_->rest_of(whole));
  ema_->load(average);
}

// Loads the content of a checkpoint; with shards, load_shards() follows.
void Trainer::load(const Restored& restored) {
  state_ = restored.state;
  restored_ = true;
  if (shards_) return;
  if (ema_) ema_->load(restored.average);
  optimizer_.load_state(restored.moments);
}

// Returns false if there is no checkpoint. In a group, process 0 reads; send_state() must follow.
bool Trainer::restore_newest(int64_t last_step) {
  std::string folder;
  const auto restore = [&] {
    std::vector<std::string> messages;
    const std::optional<Checkpoint> checkpoint = store_->load_newest(messages, last_step);
    for (const std::string& message : messages) listener_.on_message(message);
    if (!checkpoint) return false;
    load(restore_model(*checkpoint, store_->directory(), task_.model(), ema_ != nullptr));
    folder = checkpoint_name(checkpoint->step);
    return true;
  };
  if (group_ == nullptr) return restore();
  const std::string text = group_->by_first([&] {
    if (!restore()) return std::string();
    return json_text(nlohmann::json{{"folder", folder}, {"state", to_json(state_)}});
  });
  if (text.empty()) return false;
  const nlohmann::json found = parse_json(text, "the state of rank 0");
  if (!first()) state_ = loop_state_from_json(found.at("state"), "the state of rank 0");
  restored_ = true;
  if (shards_) {
    folder = found.at("folder");
    group_->together([&] { load_shards(run_ / kCheckpointFolder / folder); });
  }
  return true;
}

// Sums over the processes. After a bad loss the reading begins again, because a process may have
// skipped batches.
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
  finish_saves();
  const bool there = store_ && !store_->list().empty();
  return group_ == nullptr ? there : group_->any(there);
}

// Reports the largest memory of state in a process, and the memory in a run of one process.
void Trainer::report_shards() {
  int64_t local = tensor_bytes(optimizer_.state()), whole = 0;
  for (const Tensor& p : task_.model().parameters()) {
    if (p.requires_grad()) whole += int64_t(p.nbytes()) * (ema_ ? 3 : 2);
  }
  if (ema_)
    local += tensor_bytes(ema_->average()) - tensor_bytes(shards_->rest_of(ema_->average()));
  const auto most = group_->gather(torch::full({1}, local, torch::kLong)).max().item<int64_t>();
  listener_.on_message(cat("The optimizer's state takes ", human_bytes(most), " a process, ",
                           format_text("%.3f", double(most) / double(whole)), " of ",
                           human_bytes(whole), "."));
}

}  // namespace tost
