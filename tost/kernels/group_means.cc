// Group means, forward and backward: chunk after chunk, within it group after group of tokens, and
// for each group all heads of the thread, so that rows are read in the order of memory.
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

// Tokens are counted in the order in which their head reads them.
bool reads_from_end(const MeansInputs& in, int64_t head) {
  return head >= in.shape.heads - in.from_end;
}
int64_t place_of(const MeansInputs& in, int64_t head, int64_t token) {
  return reads_from_end(in, head) ? in.shape.tokens - 1 - token : token;
}
int64_t towards(const MeansInputs& in, int64_t head, int64_t stride) {
  return reads_from_end(in, head) ? -stride : stride;
}

template <class Rows, class Memory>
Rows rows_at(const Memory& t, const MeansInputs& in, int64_t sample, int64_t head, int64_t token) {
  if (t.data == nullptr) return {};
  const int64_t offset = head * in.shape.width * element_size(in.dtype);
  return {row(t, in.dtype, sample, place_of(in, head, token)) + offset,
          towards(in, head, t.token_stride)};
}
int64_t membership_at(const MeansInputs& in, int64_t sample, int64_t head, int64_t token) {
  return (sample * in.shape.tokens + place_of(in, head, token)) * in.shape.heads + head;
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

// What a pass reads of the tokens of a group from `token` on, of a head.
MeansBlock means_block(const MeansInputs& in, const float* powers, int64_t sample, int64_t head,
                       int64_t token) {
  const int64_t width = in.shape.width, t = token % kCausalChunk;
  MeansBlock b;
  b.tokens = std::min(kTokenGroup, in.shape.tokens - token);
  b.width = width;
  b.values = rows_at<MeansRows>(in.values, in, sample, head, token);
  b.base = rows_at<MeansRows>(in.base, in, sample, head, token);
  b.gate = rows_at<MeansRows>(in.gate, in, sample, head, token);
  b.pi = in.pi + membership_at(in, sample, head, token);
  b.pi_stride = towards(in, head, in.shape.heads);
  b.decay = powers[head * kCausalChunk];
  b.powers = powers + head * kCausalChunk + t;
  b.scale = in.scale + head * width;
  b.first = t == 0;
  return b;
}

int64_t chunk_end(const MeansInputs& in, int64_t token) {
  return std::min(in.shape.tokens, token + kCausalChunk);
}

// total = G^tokens total + rest: the sums after a chunk from those before it, of one head.
void move_on(const MeansInputs& in, int64_t head, int64_t tokens, const float* rest,
             double* total) {
  double power = 1.0;
  for (int64_t t = 0; t < tokens; ++t) power *= in.decay[head];
  for (int64_t i = 0; i <= in.shape.width; ++i) total[i] = power * total[i] + rest[i];
}

void round_sums(const double* total, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(total[i]);
}

class MeansForwardRun {
 public:
  MeansForwardRun(const MeansForwardArgs& args, void* workspace)
      : args_(args),
        in_(args.in),
        shape_(args.in.shape),
        arena_(workspace),
        stream_(worth_streaming(shape_.batch * shape_.tokens * shape_.channels() *
                                element_size(args.in.dtype))) {
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
        chunk(passes, sample, first, last, t);
      }
      passes.flush();
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

  // The sums before the chunk, as float32.
  float* before(int64_t sample, int64_t head, int64_t token) const {
    if (args_.carry == nullptr) return before_ + sums_of(sample, head);
    const int64_t at = sample * causal_chunks(shape_.tokens) + token / kCausalChunk;
    return args_.carry + at * means_state_size(shape_) + head * (shape_.width + 1);
  }

  void chunk(const MeansPasses& passes, int64_t sample, int64_t first, int64_t last,
             int64_t token) const {
    const int64_t numbers = shape_.width + 1, end = chunk_end(in_, token);
    for (int64_t k = first; k < last; ++k) {
      round_sums(total(sample, k), numbers, before(sample, k, token));
      std::fill_n(rest_ + sums_of(sample, k), numbers, 0.0f);
    }
    for (int64_t t = token; t < end; t += kTokenGroup) {
      for (int64_t k = first; k < last; ++k) {
        MeansBlock b = means_block(in_, powers_, sample, k, t);
        b.before = before(sample, k, token);
        b.rest = rest_ + sums_of(sample, k);
        b.y = rows_at<MeansOut>(args_.y, in_, sample, k, t);
        b.stream = stream_;
        passes.forward(b);
      }
    }
    for (int64_t k = first; k < last; ++k) {
      move_on(in_, k, end - token, rest_ + sums_of(sample, k), total(sample, k));
    }
  }

  const MeansForwardArgs& args_;
  const MeansInputs& in_;
  const TssaShape& shape_;
  Arena arena_;
  const bool stream_;
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
    sums_ = arena_.take<float>(shape_.batch * kCausalChunk * shape_.channels());
    mass_ = arena_.take<float>(shape_.batch * shape_.heads * kCausalChunk);
    inverse_ = arena_.take<float>(shape_.batch * shape_.heads * kCausalChunk);
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
        chunk(passes, sample, first, last, i * kCausalChunk);
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

  int64_t sums_of(int64_t sample, int64_t head) const {
    return (sample * shape_.heads + head) * (shape_.width + 1);
  }

  // Of the tokens from t on, in the chunk from `token` on.
  MeansBlock block(int64_t sample, int64_t head, int64_t token, int64_t t) const {
    const int64_t c = head * shape_.width, in_chunk = t - token;
    const int64_t chunk = sample * causal_chunks(shape_.tokens) + token / kCausalChunk;
    const int64_t row = (sample * shape_.heads + head) * kCausalChunk + in_chunk;
    MeansBlock b = means_block(in_, powers_, sample, head, t);
    b.before = args_.carry + chunk * means_state_size(shape_) + head * (shape_.width + 1);
    b.rest = rest_ + sums_of(sample, head);
    b.sums_stride = shape_.channels();
    b.sums = sums_ + (sample * kCausalChunk + in_chunk) * b.sums_stride + c;
    b.mass = mass_ + row;
    b.inverse = inverse_ + row;
    b.grad_y = rows_at<MeansRows>(args_.grad_y, in_, sample, head, t);
    b.grad_values = rows_at<MeansOut>(args_.grad_values, in_, sample, head, t);
    b.grad_base = rows_at<MeansOut>(args_.grad_base, in_, sample, head, t);
    b.grad_gate = rows_at<MeansOut>(args_.grad_gate, in_, sample, head, t);
    b.grad_pi = args_.grad_pi + membership_at(in_, sample, head, t);
    b.after = after_ + sums_of(sample, head);
    b.end_powers = powers_ + head * kCausalChunk + (chunk_end(in_, token) - 1 - t);
    b.grad_scale = scale_part_ + sample * shape_.channels() + c;
    b.grad_decay = grad_decay_ + sample * shape_.heads + head;
    return b;
  }

  void chunk(const MeansPasses& passes, int64_t sample, int64_t first, int64_t last,
             int64_t token) const {
    const int64_t numbers = (last - first) * (shape_.width + 1), end = chunk_end(in_, token);
    const int64_t channel = sample * shape_.channels() + first * shape_.width;
    const int64_t channels = (last - first) * shape_.width;
    std::fill_n(rest_ + sums_of(sample, first), numbers, 0.0f);
    for (int64_t t = token; t < end; t += kTokenGroup) {
      for (int64_t k = first; k < last; ++k) passes.restore(block(sample, k, token, t));
    }
    std::fill_n(rest_ + sums_of(sample, first), numbers, 0.0f);
    std::fill_n(scale_part_ + channel, channels, 0.0f);
    round_sums(total_ + sums_of(sample, first), numbers, after_ + sums_of(sample, first));
    for (int64_t t = token + (end - 1 - token) / kTokenGroup * kTokenGroup; t >= token;
         t -= kTokenGroup) {
      for (int64_t k = first; k < last; ++k) passes.backward(block(sample, k, token, t));
    }
    for (int64_t k = first; k < last; ++k) {
      move_on(in_, k, end - token, rest_ + sums_of(sample, k), total_ + sums_of(sample, k));
    }
    for (int64_t c = channel; c < channel + channels; ++c) grad_scale_[c] += scale_part_[c];
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
  float* sums_;         // [B, kCausalChunk, C]: M of the chunk
  float* mass_;         // [B, H, kCausalChunk]: R of the chunk
  float* inverse_;      // alike: 1 / sqrt(R + 1e-6)
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
