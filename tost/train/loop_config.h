// Settings of the training loop that do not depend on the kind of model.
#pragma once

#include "tost/nn/precision.h"
#include "tost/train/config_field.h"

namespace tost {

struct LoopConfig {
  int64_t seed = 0;
  int64_t epochs = 1;
  int64_t max_steps = 0;  // optimiser steps in all; 0: epochs decide
  int64_t accumulate = 1;
  std::string device = "cpu";  // as device_from_name() takes it

  double lr = 1e-3;
  int64_t lr_reference_batch =
      0;  // > 0: the peak is lr * (batch * accumulate) / lr_reference_batch
  double min_lr = 0;
  double warmup_lr = 0;
  double warmup_epochs = 0;
  int64_t warmup_steps = 0;  // above 0: instead of warmup_epochs
  std::string schedule = "step";
  int64_t schedule_lag = 0;

  std::string optimizer = "adamw";
  double momentum = 0.95;
  double weight_decay = 0.05;
  bool decay_all = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double clip = 0;
  Precision precision = Precision::kFp32;
  std::string recompute = "none";
  double ema_decay = 0;
  bool evaluate_ema = false;

  int64_t evaluate_every = 1;          // epochs
  int64_t evaluate_every_steps = 0;    // above 0: instead of evaluate_every
  int64_t checkpoint_every = 1;        // epochs; 0: not by epochs
  int64_t checkpoint_every_steps = 0;  // as well; 0: none
  int64_t sample_every_steps = 0;      // 0: none
  int64_t keep_last = 2;
  bool background_saves = true;
  int64_t save_retries = 2;

  double outlier_z = 0;       // standard deviations; 0: no step is skipped
  int64_t outlier_limit = 5;  // skipped steps in a row
  int64_t rollbacks = 0;
  double rollback_lr = 0.5;
  double peer_timeout = 600;  // seconds
  std::string peer_backend = "auto";
  int64_t sequence_parallel = 1;
  bool shard_optimizer = false;
  bool compress_gradients = false;
  double data_timeout = 0;  // seconds; 0: batches are waited for for ever

  int64_t log_every = 10;         // steps
  int64_t bound_every_steps = 0;  // 0: none
  int64_t threads = 0;
};

// Every kind of run has the first table of settings. Runs on data sets also have the table of
// lengths in epochs, runs on streams that of lengths in steps.
const FieldTable<LoopConfig>& loop_fields();
const FieldTable<LoopConfig>& epoch_fields();
const FieldTable<LoopConfig>& step_fields();

// Checks rules that involve several values. Throws a usage Error.
void check_loop_config(const LoopConfig& config);

// The precision of recipes for bf16: fp32 if there is no GPU and the CPU lacks bfloat16 products.
Precision recipe_precision();

}  // namespace tost
