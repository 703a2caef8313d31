// Divides calls into blocks and blocks among threads, and lays out workspaces.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tost/base/parallel.h"
#include "tost/kernels/tssa.h"

namespace tost::kernels {

// The number of tokens that kernels process at a time. Eight memberships fill a vector, and eight
// tokens of 768 float32 channels (24 KB) stay in the L1 cache.
inline constexpr int64_t kTokenGroup = 8;

// The division of a sample's tokens into blocks. More tokens never give fewer blocks.
struct TokenCut {
  explicit TokenCut(int64_t tokens);

  int64_t tokens;
  int64_t block_tokens;  // a multiple of the group size, also where there are fewer tokens
  int64_t blocks;        // at least one
};

// The division of one call. The division depends only on the shape, so any number of threads
// computes sums in the same order.
struct CallCut {
  explicit CallCut(const TssaShape& shape);

  // The division of the first lengths[sample] tokens, or of all tokens if lengths is null.
  TokenCut valid(const int64_t* lengths, int64_t sample) const {
    return lengths == nullptr ? whole : TokenCut(lengths[sample]);
  }

  TokenCut whole;         // of all N tokens of a sample
  int64_t blocks;         // of that
  int64_t chunk_heads;    // reductions go over this many heads at a time
  int64_t chunks;         // of heads, per sample
  int64_t scratch;        // floats of scratch per block
  bool light_reductions;  // too little work to wake other threads for
};

// Allocates 64-byte aligned pieces of a workspace, `apart` bytes between; from null it only counts.
class Arena {
 public:
  explicit Arena(void* base, int64_t apart = 0) : base_(static_cast<char*>(base)), apart_(apart) {}

  template <class T>
  T* take(int64_t count) {
    T* piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64 + apart_;
    return piece;
  }
  int64_t used() const { return used_; }

 private:
  char* base_;
  int64_t apart_, used_ = 0;
};

// A phase of a call: `parts` independent pieces of each sample, which end before its next phase.
template <class Run>
struct Phase {
  int64_t parts;
  void (Run::*step)(int64_t sample, int64_t part) const;
  bool serial = false;  // on the calling thread
  // Reverses the order, so that a thread starts with the rows that it read last, still in cache.
  bool backwards = false;
};

// The distribution of a call's samples over threads.
struct SamplePlan {
  bool one_per_thread;  // else the parts of a phase are spread over the threads
  int64_t together;     // samples worked on at a time when they are
};

// Gives each thread a sample if all threads are then busy and all these samples fit the caches.
// Otherwise runs as many at a time as fit, at least one: rows are still cached in the next phase.
SamplePlan plan_samples(int64_t batch, int64_t sample_bytes, int threads);

// Runs all phases over all samples. A phase reads `sample_bytes` of one sample.
template <class Run, int64_t kPhases>
void run_phases(const Run& run, const Phase<Run> (&phases)[kPhases], int64_t batch,
                int64_t sample_bytes, ParallelFor parallel, int threads) {
  const SamplePlan plan = plan_samples(batch, sample_bytes, threads);
  if (plan.one_per_thread) {
    parallel(batch, [&](int64_t begin, int64_t end) {
      for (int64_t sample = begin; sample < end; ++sample) {
        for (const auto& phase : phases) {
          for (int64_t i = 0; i < phase.parts; ++i) {
            (run.*phase.step)(sample, phase.backwards ? phase.parts - 1 - i : i);
          }
        }
      }
    });
    return;
  }
  for (int64_t first = 0; first < batch; first += plan.together) {
    const int64_t count = first + plan.together < batch ? plan.together : batch - first;
    for (const auto& phase : phases) {
      const auto steps = [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t at = phase.backwards ? begin + end - 1 - i : i;
          (run.*phase.step)(first + at / phase.parts, at % phase.parts);
        }
      };
      if (phase.serial) {
        steps(0, count * phase.parts);
      } else {
        parallel(count * phase.parts, steps);
      }
    }
  }
}

// Calls one(sample, first head, heads) for ranges of heads that cover all heads of all samples.
template <class One>
void over_head_ranges(const TssaShape& shape, ParallelFor parallel, const One& one) {
  parallel(shape.batch * shape.heads, [&](int64_t first, int64_t last) {
    while (first < last) {
      const int64_t sample = first / shape.heads, head = first % shape.heads;
      const int64_t heads = std::min(shape.heads - head, last - first);
      one(sample, head, heads);
      first += heads;
    }
  });
}

// Whether a result is too large for the caches, and should bypass them.
inline bool worth_streaming(int64_t bytes) {
  return bytes >= (8 << 20);
}

// Whether writes of `run_bytes` cover whole cache lines, which streaming stores need: a line that
// is written in two parts takes five times as long.
inline bool fills_lines(const void* out, int64_t stride_bytes, int64_t run_bytes) {
  constexpr int64_t kLine = 64;
  return reinterpret_cast<uintptr_t>(out) % kLine == 0 && stride_bytes % kLine == 0 &&
         run_bytes % kLine == 0;
}

// The destination of a pass's rows, and whether the rows bypass the caches.
struct Written {
  void* data = nullptr;
  int64_t stride = 0;
  bool stream = false;
};

// Sums partial[block * stride + c] over blocks to out[c], c in [begin, end), in float64.
void sum_blocks(const float* partial, int64_t blocks, int64_t stride, int64_t begin, int64_t end,
                float* out);

inline int64_t element_size(DType dtype) {
  return dtype == DType::kFloat32 ? 4 : 2;
}

inline const char* row(const ConstTokens& t, DType dtype, int64_t sample, int64_t token) {
  return static_cast<const char*>(t.data) +
         (sample * t.batch_stride + token * t.token_stride) * element_size(dtype);
}
inline char* row(const Tokens& t, DType dtype, int64_t sample, int64_t token) {
  return static_cast<char*>(t.data) +
         (sample * t.batch_stride + token * t.token_stride) * element_size(dtype);
}

// The padding in block `part` of `cut`: tokens from the index `valid_tokens` of the sample on.
struct PaddingRange {
  PaddingRange(const TokenCut& cut, int64_t valid_tokens, int64_t part)
      : first(std::max(valid_tokens, part * cut.block_tokens)),
        count(std::max<int64_t>(0, std::min(cut.tokens, (part + 1) * cut.block_tokens) - first)) {}

  int64_t first;
  int64_t count;
};
// Writes zeros to a range of tokens of a sample.
void clear_tokens(const Tokens& t, DType dtype, int64_t sample, const PaddingRange& range,
                  int64_t channels);

// Returns 1 / max(sqrt(E), 1e-12); NaN for NaN.
float inverse_norm(float energy);
bool norm_is_clamped(float energy);

}  // namespace tost::kernels
