// Measures speed and memory of the TSSA operator and of reference operations in the same process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tost {

struct OpBenchShape {
  int64_t batch = 0;
  int64_t tokens = 0;
};

// Parses "32x197,8x1024" to {{32, 197}, {8, 1024}}; throws a usage Error for other text.
std::vector<OpBenchShape> parse_op_shapes(const std::string& text);

struct OpBenchOptions {
  std::vector<OpBenchShape> shapes;
  int64_t dim = 768;
  int64_t heads = 12;
  std::string dtype = "float32";  // or bfloat16
  int64_t repeat = 9;             // rounds; the medians are reported
  bool causal = false;            // the causal operator, a bias for every position
  bool means = false;             // group means with forgetting in place of second moments
  bool gate = false;           // group means with their output gate, read and applied by the kernel
  std::string device = "cpu";  // as device_from_name() takes it
};

// Medians in milliseconds, including the allocation of outputs. "Plain" is the plain form on the
// same w; "layer" is in-projection, operator and out-projection; "projections" is the two
// projections; "both" is forward and backward. Causal layers have no biases.
struct OpBenchRow {
  OpBenchShape shape;
  double error = 0;  // largest deviation from the plain form, over y, pi and all gradients,
                     // relative to the largest absolute value
  double copy_ms = 0;
  double core_ms = 0;
  double plain_ms = 0;
  double core_both_ms = 0;
  double plain_both_ms = 0;
  double layer_ms = 0;
  double projections_ms = 0;
  double layer_both_ms = 0;
  double projections_both_ms = 0;
  // The time of a softmax attention layer in torch's fused kernels; measured only on a GPU.
  double attention_ms = 0, attention_both_ms = 0;
  // The memory of a layer's input and of its tensors for backward, divided by the memory of the
  // input. NaN if the caching allocator, which counts the memory, is off.
  double layer_kept = 0;
  double plain_layer_kept = 0;
};

// Checks for every shape that operator and plain form agree, then measures both in alternating
// rounds. Calls `report` with each finished row, and uses torch's number of threads. On a GPU, many
// calls are queued and timed together. Throws a usage Error for bad options and a data Error if the
// two forms disagree.
std::vector<OpBenchRow> run_op_bench(const OpBenchOptions& options,
                                     const std::function<void(const OpBenchRow&)>& report);

}  // namespace tost
