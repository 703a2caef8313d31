// Time and memory of whole training steps of an image or language model, compared with the matrix
// products alone, the plain form and the softmax counterpart, in the same process.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tost/kinds/language/config.h"
#include "tost/kinds/vision/config.h"
#include "tost/nn/precision.h"

namespace tost {

struct TrainBenchOptions {
  LanguageConfig config;               // its block is the length of a sequence
  std::optional<VisionConfig> vision;  // instead of it
  int64_t image_size = 224;            // with it: pixels a side
  int64_t batch = 1;
  std::string recompute = "none";           // as in training; not of the plain form
  Precisions precisions{Precision::kFp32};  // and bf16
  int64_t repeat = 5;                       // rounds; medians are reported
  torch::Device device = torch::kCPU;
  std::string graphs = "auto";     // of a GPU, see graphs_wanted()
  bool plain = true, twin = true;  // measure these as well
};

// "fp32,bf16" -> both. Throws a usage Error for anything else.
Precisions parse_precisions(const std::string& text);

struct StepCost {
  double ms = 0;  // a whole step; 0: not measured
  // Its parts; forward includes the loss. With graphs forward and backward are one: 0 each.
  double forward_ms = 0, backward_ms = 0, forward_backward_ms = 0, update_ms = 0;
  // Gradients, activations and scratch at their peak; 0: not counted, as with graphs.
  int64_t bytes = 0;
  int64_t state_bytes = 0;  // weights, moments and bfloat16 copies
  double loss = 0;          // of the first step
  bool graphs = false;      // the steps timed were replays of graphs
};

struct TrainBenchRow {
  Precision precision = Precision::kFp32;
  int64_t parameters = 0, samples = 0;  // tokens or images a step
  double floor_ms = 0;     // every matrix product of a step: forward, and both of backward
  double floor_gflop = 0;  // multiplications and additions
  StepCost step;           // forward, loss, backward, clipping, AdamW, as the trainer does them
  StepCost plain;          // the official formula through ATen, with an eager AdamW
  StepCost twin;           // softmax instead of the mixer
};

// Throws usage Errors for options that cannot be measured.
void check_train_bench(const TrainBenchOptions& options);

// Attention's own products are not part of the floor. Step, floor and plain form alternate; the
// softmax counterpart follows. `report` is called with each row as it is done. Uses the threads
// torch is set to. Throws the usage Errors of check_train_bench(), one for graphs "on" that cannot
// be, and a data Error if the plain form's loss differs.
std::vector<TrainBenchRow> run_train_bench(const TrainBenchOptions& options,
                                           const std::function<void(const TrainBenchRow&)>& report);

}  // namespace tost
