// Time of a decoding step, and of reading the model's weights once, in the same process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tost/nn/precision.h"

namespace tost {

struct DecodeBenchOptions {
  std::vector<std::string> models{"tost_gpt_base", "gpt_base"};  // presets, weights drawn at random
  Precisions precisions;                                         // empty: all that the device has
  torch::Device device = torch::kCPU;
  std::string graphs = "auto";        // of a GPU, see graphs_wanted()
  std::vector<int64_t> contexts{16};  // tokens read before the measured ones
  int64_t batch = 1;
  int64_t tokens = 32;  // measured steps; the median is reported
};

struct DecodeBenchRow {
  std::string model;
  Precision precision = Precision::kFp32;
  int64_t context = 0;
  bool graphs = false;       // the steps timed were replays of graphs
  int64_t weight_bytes = 0;  // that a step reads: all but the rows of the tables it looks up
  int64_t state_bytes = 0;
  int64_t resident_bytes = 0;  // on a GPU: most that its tensors took
  double read_gb_per_s = 0;  // plain read of a buffer of weight_bytes, all threads, best of rounds
  double read_ms = 0;        // weight_bytes at that rate
  double step_ms = 0;
  double prefill_tokens_per_s = 0;
};

// Checks that stepwise logits equal those of the whole sequence, then measures. Models with learned
// positions refuse contexts beyond their block. Throws usage Errors for bad options and for graphs
// "on" that cannot be, a data Error if the logits disagree.
std::vector<DecodeBenchRow> run_decode_bench(
    const DecodeBenchOptions& options, const std::function<void(const DecodeBenchRow&)>& report);

}  // namespace tost
