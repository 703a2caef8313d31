#include "tost/train/loop_config.h"

#include "tost/base/error.h"
#include "tost/engine/packed_linear.h"
#include "tost/nn/block.h"
#include "tost/ops/device.h"

namespace tost {
namespace {

constexpr int64_t kMany = int64_t{1} << 40;
using enum OnResume;
using C = LoopConfig;

void add_general_fields(FieldTable<C>& t) {
  t.integer("seed", &C::seed, 0, kMany, kFixed,
            "seed of weights, data and everything else that is random")
      .integer("accumulate", &C::accumulate, 1, 65536, kFixed,
               "batches whose gradients make one step")
      .text("device", &C::device, kFree,
            "cpu, cuda, cuda:N (the GPU of number N), or auto: a GPU where torch sees one")
      .integer("threads", &C::threads, 0, 4096, kWarn,
               "compute threads (0: as many as there are cores)")
      .number("lr", &C::lr, 0, 100, kWarn, "peak learning rate")
      .number("min_lr", &C::min_lr, 0, 100, kWarn, "learning rate the cosine ends at")
      .number("warmup_lr", &C::warmup_lr, 0, 100, kWarn, "learning rate of the first warm-up step");
}

void add_optimizer_fields(FieldTable<C>& t) {
  t.choice(
       "optimizer", &C::optimizer, {"adamw", "muon"}, kFixed,
       "muon: of the matrices of blocks, steps along a momentum made orthogonal; AdamW elsewhere")
      .number("momentum", &C::momentum, 0, 0.999999, kWarn, "Muon momentum")
      .number("weight_decay", &C::weight_decay, 0, 10, kWarn, "AdamW weight decay")
      .flag("decay_all", &C::decay_all, kFixed,
            "decay the parameters that are usually exempt (biases, norms) as well")
      .number("beta1", &C::beta1, 0, 0.999999, kWarn, "AdamW first moment decay")
      .number("beta2", &C::beta2, 0, 0.999999999, kWarn, "AdamW second moment decay")
      .number("eps", &C::eps, 1e-20, 1, kWarn, "AdamW epsilon")
      .number("clip", &C::clip, 0, 1e9, kWarn, "largest gradient norm (0: no clipping)")
      .choice("precision", &C::precision, names_of(classifier_precisions(/*engine=*/false)), kWarn,
              "bf16: matrix products in bfloat16 on copies of the weights, which stay fp32")
      .choice(
          "recompute", &C::recompute, recompute_names(), kFree,
          "activations computed again in backward instead of kept: each MLP's hidden values, or "
          "all within a block; slower, less memory, the same results")
      .number("ema_decay", &C::ema_decay, 0, 0.9999999, kFixed,
              "decay of the averaged weights (0: none)")
      .flag("evaluate_ema", &C::evaluate_ema, kWarn,
            "evaluate the averaged weights instead of the raw ones");
}

void add_record_fields(FieldTable<C>& t) {
  t.integer("checkpoint_every_steps", &C::checkpoint_every_steps, 0, kMany, kFree,
            "steps between further checkpoints (0: none)")
      .integer("keep_last", &C::keep_last, 1, 100000, kFree,
               "newest checkpoints kept, in addition to the best one")
      .flag("background_saves", &C::background_saves, kFree,
            "write checkpoints while training continues, from a copy of the run's state in memory")
      .integer(
          "save_retries", &C::save_retries, 0, 10, kFree,
          "further attempts at a checkpoint that cannot be written, after 0.5, 2, 8, 10, 10, ... s")
      .integer("log_every", &C::log_every, 1, kMany, kFree, "steps a line of metrics.jsonl sums up")
      .integer("bound_every_steps", &C::bound_every_steps, 0, kMany, kFree,
               "steps between measurements of each layer's coding rates and their bound (0: none)");
}

void add_guard_fields(FieldTable<C>& t) {
  t.number("outlier_z", &C::outlier_z, 0, 1e6, kWarn,
           "skip steps whose loss or gradient norm lies more than so many standard deviations "
           "above the mean of the last 128 steps (0: none)")
      .integer("outlier_limit", &C::outlier_limit, 0, kMany, kWarn,
               "steps skipped in a row before the run ends or rolls back")
      .integer(
          "rollbacks", &C::rollbacks, 0, 1000000, kWarn,
          "times the run rolls back to its last checkpoint, past the batches since, instead of "
          "ending on a loss that is not finite or too many skipped steps")
      .number("rollback_lr", &C::rollback_lr, 1e-6, 1, kWarn,
              "what each of them multiplies the learning rate by from there on")
      .number("data_timeout", &C::data_timeout, 0, 1e8, kFree,
              "seconds without a batch after which the run is saved and ends (0: never)")
      .number("peer_timeout", &C::peer_timeout, 1, 1e6, kFree,
              "seconds that a process of several waits for another before the run ends")
      .choice("peer_backend", &C::peer_backend, {"auto", "nccl", "gloo"}, kFree,
              "how processes exchange tensors on GPUs: nccl, gloo (through the host's memory), or "
              "auto: nccl where the program has it")
      .integer("sequence_parallel", &C::sequence_parallel, 1, 65536, kFree,
               "processes that divide the tokens of each text or sequence among them")
      .flag("shard_optimizer", &C::shard_optimizer, kFree,
            "divide AdamW's moments and the averaged weights over the processes of the run")
      .flag("compress_gradients", &C::compress_gradients, kWarn,
            "sum gradients over the processes in bfloat16: half the bytes, less precision");
}

void add_epoch_fields(FieldTable<C>& t) {
  t.integer("epochs", &C::epochs, 1, 1000000, kWarn, "passes over the training data")
      .integer("max_steps", &C::max_steps, 0, kMany, kWarn, "optimiser steps in all (0: by epochs)")
      .number("warmup_epochs", &C::warmup_epochs, 0, 1000000, kWarn, "length of the linear warm-up")
      .integer("lr_reference_batch", &C::lr_reference_batch, 0, kMany, kWarn,
               "scale the peak by batch x accumulate / this (0: do not scale)")
      .choice("schedule", &C::schedule, {"step", "epoch", "rsqrt"}, kWarn,
              "cosine moved every step, or once an epoch as the official code does; rsqrt: the "
              "inverse square root of the step")
      .integer("schedule_lag", &C::schedule_lag, 0, 2, kWarn,
               "epochs by which an epoch schedule lags (official: 1 ImageNet, 2 fine-tuning)")
      .integer("evaluate_every", &C::evaluate_every, 1, 1000000, kWarn,
               "epochs between evaluations")
      .integer("checkpoint_every", &C::checkpoint_every, 1, 1000000, kFree,
               "epochs between checkpoints");
}

void add_step_fields(FieldTable<C>& t) {
  t.integer("max_steps", &C::max_steps, 1, kMany, kWarn, "optimiser steps in all")
      .integer("warmup_steps", &C::warmup_steps, 0, kMany, kWarn, "length of the linear warm-up")
      .integer("evaluate_every_steps", &C::evaluate_every_steps, 1, kMany, kWarn,
               "steps between evaluations")
      .integer("sample_every_steps", &C::sample_every_steps, 0, kMany, kFree,
               "steps between samples (0: none)");
}

FieldTable<C> table_of(std::initializer_list<void (*)(FieldTable<C>&)> parts) {
  FieldTable<C> table;
  for (const auto& add : parts) add(table);
  return table;
}

}  // namespace

const FieldTable<C>& loop_fields() {
  static const auto table =
      table_of({add_general_fields, add_optimizer_fields, add_record_fields, add_guard_fields});
  return table;
}

const FieldTable<C>& epoch_fields() {
  static const auto table = table_of({add_epoch_fields});
  return table;
}

const FieldTable<C>& step_fields() {
  static const auto table = table_of({add_step_fields});
  return table;
}

void check_loop_config(const LoopConfig& config) {
  if (config.evaluate_ema && config.ema_decay == 0) {
    fail_usage("evaluate_ema needs averaged weights: set ema_decay above 0.");
  }
  if (config.schedule != "epoch" && config.schedule_lag != 0) {
    fail_usage("schedule_lag ", config.schedule_lag, " needs schedule \"epoch\"; the ",
               config.schedule, " schedule does not lag.");
  }
  if (config.optimizer == "muon" && config.shard_optimizer) {
    fail_usage("shard_optimizer divides AdamW's moments alone; leave it out with optimizer muon.");
  }
  if (config.min_lr > config.lr && config.lr_reference_batch == 0) {
    fail_usage("min_lr ", config.min_lr, " is above lr ", config.lr, ".");
  }
}

Precision recipe_precision() {
  const bool fast = multiplies_as_packed(Packing::kBfloat16) || gpu_count() > 0;
  return fast ? Precision::kBf16 : Precision::kFp32;
}

}  // namespace tost
