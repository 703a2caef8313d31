// Time and memory of whole training steps of a language model, beside the matrix products alone,
// the plain form of its mixer and its softmax twin, in the same process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tost/models/language_config.h"

namespace tost {

struct TrainBenchOptions {
  LanguageConfig config;  // its block is the length of a sequence
  int64_t batch = 1;
  std::vector<std::string> precisions = {"fp32"};  // and bf16
  int64_t repeat = 5;                              // rounds; medians are reported
  bool plain = true, twin = true;                  // measure these as well
};

// "fp32,bf16" -> {"fp32", "bf16"}. Throws a usage Error for anything else.
std::vector<std::string> parse_precisions(const std::string& text);

struct StepCost {
  double ms = 0;                                          // a whole step; 0: not measured
  double forward_ms = 0, backward_ms = 0, update_ms = 0;  // its parts; forward includes the loss
  int64_t bytes = 0;  // gradients, activations and scratch at their peak; 0: not counted
  double loss = 0;    // of the first step
};

struct TrainBenchRow {
  std::string precision;
  int64_t parameters = 0, tokens = 0;
  double floor_ms = 0;     // every matrix product of a step: forward, and both of backward
  double floor_gflop = 0;  // multiplications and additions
  StepCost step;           // forward, loss, backward, clipping, AdamW, as the trainer does them
  StepCost plain;          // causal TSSA as its ATen definition, and torch's cross-entropy
  StepCost twin;           // softmax instead of the mixer
};

// Attention's own products are no part of the floor. Step, floor and plain form alternate; the twin
// follows. `report` is called with each row as it is done. Uses the threads torch is set to. Throws
// a usage Error for bad options, a data Error if the plain form's loss differs.
std::vector<TrainBenchRow> run_train_bench(const TrainBenchOptions& options,
                                           const std::function<void(const TrainBenchRow&)>& report);

}  // namespace tost
