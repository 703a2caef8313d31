// Group means, forward and backward: chunk after chunk of every head, heads spread over threads.
#include "tost/kernels/group_means.h"

#include <algorithm>

#include "tost/kernels/group_means_passes.h"
#include "tost/kernels/schedule.h"
#include "tost/kernels/work_times.h"

namespace tost::kernels {
namespace {

constexpr int64_t kLightMeans = 64
                                << 10;  // numbers of values; other threads are not woken for less

// Calls one(sample, first head, last head) for ranges of heads that cover all heads of all samples.
template <class One>
void over_head_ranges(const TssaShape& shape, ParallelFor parallel, const One& one) {
  const auto ranges = [&](int64_t first, int64_t last) {
    while (first < last) {
      const int64_t sample = first / shape.heads, head = first % shape.heads;
      const int64_t count = std::min(shape.heads - head, last - first);
      one(sample, head, head + count);
      first += count;
    }
  };
  const int64_t all = shape.batch * shape.heads;
  const bool light = shape.batch * shape.tokens * shape.channels() <= kLightMeans;
  light ? ranges(0, all) : parallel(all, ranges);
}

MeansRows rows_at(const ConstTokens& t, const MeansInputs& in, int64_t sample, int64_t token,
                  int64_t channel) {
  if (t.data == nullptr) return {};
  return {row(t, in.dtype, sample, token) + channel * element_size(in.dtype), t.token_stride};
}
MeansOut rows_at(const Tokens& t, const MeansInputs& in, int64_t sample, int64_t token,
                 int64_t channel) {
  if (t.data == nullptr) return {};
  return {row(t, in.dtype, sample, token) + channel * element_size(in.dtype), t.token_stride};
}

// [H, kCausalChunk]: G^1, G^2, ... of every head.
void fill_powers(const MeansInputs& in, float* powers) {
  for (int64_t k = 0; k < in.shape.heads; ++k) {
    double power = 1.0;
    for (int64_t t = 0; t < kCausalChunk; ++t) {
      power *= in.decay[k];
      powers[k * kCausalChunk + t] = static_cast<float>(power);
    }
  }
}

// What a pass reads of `tokens` tokens of a head from `token` on.
MeansBlock means_block(const MeansInputs& in, const float* powers, int64_t sample, int64_t head,
                       int64_t token) {
  const int64_t width = in.shape.width, c = head * width;
  MeansBlock b;
  b.tokens = std::min(kCausalChunk, in.shape.tokens - token);
  b.width = width;
  b.values = rows_at(in.values, in, sample, token, c);
  b.base = rows_at(in.base, in, sample, token, c);
  b.gate = rows_at(in.gate, in, sample, token, c);
  b.pi = in.pi + (sample * in.shape.tokens + token) * in.shape.heads + head;
  b.pi_stride = in.shape.heads;
  b.powers = powers + head * kCausalChunk;
  b.scale = in.scale + c;
  return b;
}

// total = G^tokens total + rest: the sums after a chunk from those before it, of one head.
void move_on(const MeansInputs& in, const MeansBlock& b, int64_t head, double* total) {
  double power = 1.0;
  for (int64_t t = 0; t < b.tokens; ++t) power *= in.decay[head];
  for (int64_t i = 0; i <= b.width; ++i) total[i] = power * total[i] + b.rest[i];
}

void round_sums(const double* total, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(total[i]);
}

class MeansForwardRun {
 public:
  MeansForwardRun(const MeansForwardArgs& args, void* workspace)
      : args_(args), in_(args.in), shape_(args.in.shape), arena_(workspace) {
    const int64_t sums = shape_.batch * means_state_size(shape_);
    powers_ = arena_.take<float>(shape_.heads * kCausalChunk);
    rest_ = arena_.take<float>(sums);
    if (args.next_state == nullptr) state_ = arena_.take<double>(sums);
    if (args.carry == nullptr) before_ = arena_.take<float>(sums);
  }

  int64_t workspace_bytes() const { return arena_.used(); }

  void run(ParallelFor parallel) const {
    const WorkTimer timer(Work::kMixing);
    const MeansPasses& passes = means_passes(in_.dtype, in_.gate.data != nullptr);
    fill_powers(in_, powers_);
    over_head_ranges(shape_, parallel, [&](int64_t sample, int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) begin(sample, k);
      for (int64_t t = 0; t < shape_.tokens; t += kCausalChunk) {
        for (int64_t k = first; k < last; ++k) chunk(passes, sample, k, t);
      }
    });
  }

 private:
  int64_t sums_of(int64_t sample, int64_t head) const {
    return (sample * shape_.heads + head) * (shape_.width + 1);
  }
  double* total(int64_t sample, int64_t head) const {
    return (args_.next_state != nullptr ? args_.next_state : state_) + sums_of(sample, head);
  }

  void begin(int64_t sample, int64_t head) const {
    double* to = total(sample, head);
    const double* from = args_.state;
    if (from == nullptr) {
      std::fill_n(to, shape_.width + 1, 0.0);
    } else if (from + sums_of(sample, head) != to) {
      std::copy_n(from + sums_of(sample, head), shape_.width + 1, to);
    }
  }

  void chunk(const MeansPasses& passes, int64_t sample, int64_t head, int64_t token) const {
    MeansBlock b = means_block(in_, powers_, sample, head, token);
    double* sums = total(sample, head);
    float* before = before_ + sums_of(sample, head);
    if (args_.carry != nullptr) {
      const int64_t at = sample * causal_chunks(shape_.tokens) + token / kCausalChunk;
      before = args_.carry + at * means_state_size(shape_) + head * (shape_.width + 1);
    }
    round_sums(sums, shape_.width + 1, before);
    b.before = before;
    b.rest = rest_ + sums_of(sample, head);
    b.y = rows_at(args_.y, in_, sample, token, head * shape_.width);
    passes.forward(b);
    move_on(in_, b, head, sums);
  }

  const MeansForwardArgs& args_;
  const MeansInputs& in_;
  const TssaShape& shape_;
  Arena arena_;
  float* powers_;            // [H, kCausalChunk]
  float* rest_;              // [B, H, P + 1], as below
  double* state_ = nullptr;  // where the caller wants none
  float* before_ = nullptr;
};

class MeansBackwardRun {
 public:
  MeansBackwardRun(const MeansBackwardArgs& args, void* workspace)
      : args_(args), in_(args.in), shape_(args.in.shape), arena_(workspace) {
    const int64_t sums = shape_.batch * means_state_size(shape_);
    powers_ = arena_.take<float>(shape_.heads * kCausalChunk);
    total_ = arena_.take<double>(sums);
    after_ = arena_.take<float>(sums);
    rest_ = arena_.take<float>(sums);
    scale_part_ = arena_.take<float>(shape_.batch * shape_.channels());
    grad_scale_ = arena_.take<double>(shape_.batch * shape_.channels());
    grad_decay_ = arena_.take<double>(shape_.batch * shape_.heads);
  }

  int64_t workspace_bytes() const { return arena_.used(); }

  void run(ParallelFor parallel) const {
    const MeansPasses& passes = means_passes(in_.dtype, in_.gate.data != nullptr);
    fill_powers(in_, powers_);
    std::fill_n(total_, shape_.batch * means_state_size(shape_), 0.0);
    std::fill_n(grad_scale_, shape_.batch * shape_.channels(), 0.0);
    std::fill_n(grad_decay_, shape_.batch * shape_.heads, 0.0);
    over_head_ranges(shape_, parallel, [&](int64_t sample, int64_t first, int64_t last) {
      for (int64_t i = causal_chunks(shape_.tokens) - 1; i >= 0; --i) {
        for (int64_t k = first; k < last; ++k) chunk(passes, sample, k, i);
      }
    });
    for (int64_t c = 0; c < shape_.channels(); ++c)
      args_.grad_scale[c] = static_cast<float>(over_samples(grad_scale_ + c, shape_.channels()));
    for (int64_t k = 0; k < shape_.heads; ++k)
      args_.grad_decay[k] = over_samples(grad_decay_ + k, shape_.heads);
  }

 private:
  double over_samples(const double* first, int64_t stride) const {
    double sum = 0.0;
    for (int64_t sample = 0; sample < shape_.batch; ++sample) sum += first[sample * stride];
    return sum;
  }

  void chunk(const MeansPasses& passes, int64_t sample, int64_t head, int64_t index) const {
    const int64_t token = index * kCausalChunk, c = head * shape_.width;
    const int64_t own = (sample * shape_.heads + head) * (shape_.width + 1);
    const int64_t channel = sample * shape_.channels() + c;
    MeansBlock b = means_block(in_, powers_, sample, head, token);
    b.grad_y = rows_at(args_.grad_y, in_, sample, token, c);
    b.grad_values = rows_at(args_.grad_values, in_, sample, token, c);
    b.grad_base = rows_at(args_.grad_base, in_, sample, token, c);
    b.grad_gate = rows_at(args_.grad_gate, in_, sample, token, c);
    b.grad_pi = args_.grad_pi + (sample * shape_.tokens + token) * shape_.heads + head;
    b.before = args_.carry +
               (sample * causal_chunks(shape_.tokens) + index) * means_state_size(shape_) +
               head * (shape_.width + 1);
    round_sums(total_ + own, shape_.width + 1, after_ + own);
    b.after = after_ + own;
    b.rest = rest_ + own;
    b.grad_scale = scale_part_ + channel;
    b.grad_decay = grad_decay_ + sample * shape_.heads + head;
    passes.backward(b);
    move_on(in_, b, head, total_ + own);
    for (int64_t i = 0; i < shape_.width; ++i) grad_scale_[channel + i] += b.grad_scale[i];
  }

  const MeansBackwardArgs& args_;
  const MeansInputs& in_;
  const TssaShape& shape_;
  Arena arena_;
  float* powers_;  // [H, kCausalChunk]
  double* total_;  // [B, H, P + 1]: A and B, as the two below
  float* after_;
  float* rest_;
  float* scale_part_;   // [B, C]
  double* grad_scale_;  // [B, C]
  double* grad_decay_;  // [B, H]
};

}  // namespace

int64_t means_forward_workspace(const MeansForwardArgs& args) {
  return MeansForwardRun(args, nullptr).workspace_bytes();
}
int64_t means_backward_workspace(const MeansBackwardArgs& args) {
  return MeansBackwardRun(args, nullptr).workspace_bytes();
}

void means_forward(const MeansForwardArgs& args, void* workspace, ParallelFor parallel) {
  MeansForwardRun(args, workspace).run(parallel);
}
void means_backward(const MeansBackwardArgs& args, void* workspace, ParallelFor parallel) {
  MeansBackwardRun(args, workspace).run(parallel);
}

}  // namespace tost::kernels
