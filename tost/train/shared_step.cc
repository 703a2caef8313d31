#include "tost/train/shared_step.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/train/loop_config.h"
#include "tost/train/train_task.h"

namespace tost {
namespace {

using torch::Tensor;

std::vector<Tensor> trained_parameters(const torch::nn::Module& model) {
  std::vector<Tensor> trained;
  for (const Tensor& p : model.parameters()) {
    if (p.requires_grad()) trained.push_back(p);
  }
  return trained;
}

}  // namespace

BatchShare divide_step(int64_t accumulate, int64_t batch, int64_t rank, int64_t all,
                       int64_t token_parts) {
  if (all % token_parts != 0) {
    fail_usage("sequence_parallel ", token_parts, " does not divide the run's ", all,
               all == 1 ? " process" : " processes", "; start a multiple of ", token_parts,
               " with torchrun, or set it to 1.");
  }
  const int64_t world = all / token_parts;
  if (world > accumulate && world % accumulate != 0) {
    fail_usage(all, " processes cannot share the ", accumulate, " batches of a step evenly; run ",
               world / accumulate * accumulate * token_parts, " processes, or set accumulate to ",
               world, " (with a smaller batch the step stays as large).");
  }
  const BatchShare share{.per_step = accumulate,
                         .rank = rank / token_parts,
                         .world = world,
                         .token_part = rank % token_parts,
                         .token_parts = token_parts};
  if (share.parts() > batch) {
    fail_usage(share.parts(), " processes cannot share a batch of ", batch,
               "; raise batch, or run fewer processes.");
  }
  return share;
}

SharedStep::SharedStep(Group& group, const BatchShare& share, torch::nn::Module& model,
                       BucketOptions options)
    : group_(group),
      share_(share),
      buckets_(group, trained_parameters(model), options),
      statistics_(group, model),
      busy_seconds_(size_t(group.world())) {
  for (int64_t i = 0; i < share_.per_step; ++i) {
    if (share_.is_local(i)) last_ = i;
  }
  if (share_.parts() > 1 && !statistics_.empty()) {
    norm_group_ = group_.split("batch", share_.rank / share_.parts());
  }
  if (share_.token_parts > 1) {
    token_group_ = group_.split("tokens", share_.rank);
    token_sums_ = tost::token_sums(*token_group_);
  }
}

void SharedStep::begin() {
  began_ = Clock::now();
  buckets_.begin();
  statistics_.begin();
}

void SharedStep::before_batch(int64_t batch) {
  statistics_.before_batch();
  if (batch == last_) buckets_.arm();
}

void SharedStep::after_batch(int64_t batch) {
  statistics_.after_batch(share_.per_step - 1 - batch, share_.part() == 0);
}

double SharedStep::agreed(double loss) {
  const bool bad = token_group_ && token_group_->any(!std::isfinite(loss));
  return bad ? std::numeric_limits<double>::quiet_NaN() : loss;
}

StepTotals SharedStep::finish(const StepTotals& local) {
  const std::chrono::duration<double> busy = Clock::now() - began_;
  buckets_.finish();
  statistics_.finish(share_.per_step);
  constexpr int64_t kNumbers = 5;
  Tensor numbers = torch::zeros({kNumbers + group_.world()}, torch::kDouble);
  auto* number = numbers.data_ptr<double>();
  number[0] = local.loss;
  if (share_.token_part == 0) {  // the same rows count once
    number[1] = double(local.samples);
    number[2] = double(std::max<int64_t>(local.correct, 0));
  }
  number[3] = local.correct < 0 ? 1 : 0;
  number[4] = local.stop ? 1 : 0;
  number[kNumbers + group_.rank()] = busy.count();
  group_.sum(numbers);
  for (size_t rank = 0; rank < busy_seconds_.size(); ++rank) {
    busy_seconds_[rank] += number[kNumbers + int64_t(rank)];
  }
  return {.loss = number[0],
          .samples = int64_t(number[1]),
          .correct = number[3] > 0 ? -1 : int64_t(number[2]),
          .stop = number[4] > 0};
}

ShareReport SharedStep::take_report() {
  const auto now = Clock::now();
  const std::chrono::duration<double> seconds = now - std::exchange(reported_, now);
  const double waited = group_.waited();
  const auto slowest = std::ranges::max_element(busy_seconds_);
  const ShareReport report{
      .waiting = std::min(1.0, (waited - std::exchange(waited_, waited)) / seconds.count()),
      .slowest_rank = slowest - busy_seconds_.begin()};
  std::ranges::fill(busy_seconds_, 0);
  return report;
}

std::unique_ptr<SharedStep> share_steps(const LoopConfig& config, TrainTask& task, Group* group) {
  if (group == nullptr) return nullptr;
  const BatchShare share = divide_step(config.accumulate, task.rows_per_batch(), group->rank(),
                                       group->world(), config.sequence_parallel);
  task.share_batches(share, group);
  return std::make_unique<SharedStep>(
      *group, share, task.model(),
      BucketOptions{.bf16 = config.compress_gradients, .scatter = config.shard_optimizer});
}

std::vector<Tensor> rows_of(const BatchShare& share, std::vector<Tensor> tensors) {
  if (share.parts() == 1) return tensors;
  for (Tensor& x : tensors) {
    if (!x.defined()) continue;
    x = x.narrow(0, share.first_row(x.size(0)), share.rows(x.size(0))).contiguous();
  }
  return tensors;
}

Tensor tokens_of(const BatchShare& share, const Tensor& x) {
  if (share.token_parts == 1) return x;
  const int64_t tokens = x.size(1) / share.token_parts;
  return x.narrow(1, share.token_part * tokens, tokens).contiguous();
}

void check_split_mixer(const std::vector<std::string>& able, const std::string& mixer) {
  if (std::ranges::find(able, mixer) != able.end()) return;
  fail_usage("The mixer '", mixer,
             "' cannot divide a sequence over processes; leave "
             "sequence_parallel at 1, or use one of ",
             join(able, ", "), ".");
}

}  // namespace tost
