// Measures how time and memory of a layer or a network grow with the number of tokens, for several
// mixers in the same process, up to the lengths that fit.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/torch.h"

namespace tost {

// The check of the membership Π at a length: whether float32 sums over so many tokens are exact.
struct MembershipCheck {
  int64_t tokens = 0;
  double temp = 0;  // largest of the heads
  // Mean over tokens of the entropy of Π over the heads, divided by log H: 1 if all heads are
  // equally likely, NaN for one head.
  double entropy = 0;
  double least_share = 0, largest_share = 0;  // mean of Π over tokens, times H, of single heads
  bool finite = false;                        // all of Π, y and the sums they are made of
  double pi_error = 0;                        // largest deviation of Π from float64
  double y_error = 0;  // the same of the operator's output, relative to the largest output
};

// Compares the operator on w [B, N, C], float32 or bfloat16, and temp [H, 1] with float64
// arithmetic over blocks of tokens, which needs no float64 copy of w.
MembershipCheck check_membership(const torch::Tensor& w, const torch::Tensor& temp);

// Returns n / sqrt(2 P), at which logits of random tokens spread by about 1 at any length. Logits
// are energies over their sum, so at a fixed temp they vanish as 1 / n and Π becomes uniform.
double temp_for_length(int64_t tokens, int64_t head_width);

// As check_membership(), for the causal operator without a bias.
MembershipCheck check_causal_membership(const torch::Tensor& w, const torch::Tensor& temp);

struct ScalingOptions {
  // Names from mixer_names(), with `causal` from causal_mixer_names().
  std::vector<std::string> mixers{"tssa", "softmax", "xca", "linear", "ssm"};
  std::vector<int64_t> tokens;                         // rising; see parse_lengths
  std::vector<std::string> modes{"forward", "train"};  // train: forward and backward
  bool causal = false;
  // A preset of sequence_preset_names(), whose classifier is measured instead of a layer: in
  // float32, not causal, with sinusoidal positions in place of learned ones. "" measures a layer.
  std::string network;
  int64_t dim = 768;
  int64_t heads = 12;
  std::string dtype = "float32";  // or bfloat16
  int64_t batch_tokens = 4096;    // sequences at a time: as many as have these tokens, at least one
  int64_t repeat = 3;             // rounds; medians are reported
  double max_seconds = 60;        // of one repetition, as predicted
  int64_t max_bytes = 0;          // that the process may take; 0: all that is available
  // A flag that is read before every repetition and ends the measurement; may be null.
  const std::atomic<bool>* stop = nullptr;
};

// Parses "128,256,4k,1M" to {128, 256, 4096, 1048576}; k and M are powers of 1024. Throws a usage
// Error for other text, and for lengths that do not rise.
std::vector<int64_t> parse_lengths(const std::string& text);

// 128, 256, ... 1,048,576.
std::vector<int64_t> default_lengths();

struct ScalingPoint {
  std::string mixer, mode;
  int64_t tokens = 0, batch = 0;
  double ms = 0;  // of one call on the batch
  // The peak memory of a call, including its output, without input and weights; 0 if not counted.
  int64_t bytes = 0;
};

// The length at which a mixer ends in a mode, and why.
struct ScalingStop {
  std::string mixer, mode;
  int64_t tokens = 0;  // the first length left out
  std::string reason;
};

struct ScalingResult {
  std::vector<ScalingPoint> points;
  std::vector<ScalingStop> stops;
  std::vector<MembershipCheck> memberships;  // of tssa layers at every length measured, as
                                             // they start and with temp_for_length()
  bool interrupted = false;
};

// Callbacks for progress; each may be empty.
struct ScalingWatcher {
  std::function<void(const ScalingPoint&)> point;
  std::function<void(const ScalingStop&)> stop;
  std::function<void(const MembershipCheck&)> membership;
  // Called before a mixer is run at a length.
  std::function<void(const std::string& mixer, const std::string& mode, int64_t tokens)> begin;
};

// Throws usage Errors for unknown mixers, heads that do not divide the width, and the like.
void check_scaling_options(const ScalingOptions& options);

// Checks every mixer against a float64 reference, then measures length by length, the mixers in
// interleaved rounds. A mixer ends before a length at which its time or memory, extrapolated from
// shorter ones, would exceed the limits. Uses torch's number of threads. Throws usage Errors for
// bad options, and a data Error if a result is wrong, or before any run if the first length of a
// mixer does not fit.
ScalingResult run_scaling_bench(const ScalingOptions& options, const ScalingWatcher& watcher);

// Estimates the bytes of a first call before anything is measured: input, weights and peak.
int64_t scaling_bytes(const ScalingOptions& options, const std::string& mixer,
                      const std::string& mode, int64_t tokens);

// A table of time and memory of a sequence by length and mixer, then one of memberships.
std::string scaling_table(const ScalingOptions& options, const ScalingResult& result);

nlohmann::json scaling_json(const ScalingOptions& options, const ScalingResult& result);

}  // namespace tost
