// Causal forward: logits, softmax, output over groups of tokens by sample, over windows otherwise.
#include <algorithm>
#include <cstring>

#include "tost/kernels/causal_schedule.h"
#include "tost/kernels/schedule.h"
#include "tost/kernels/tssa_passes.h"
#include "tost/kernels/work_times.h"

namespace tost::kernels {
namespace {

class CausalForwardRun {
 public:
  CausalForwardRun(const CausalForwardArgs& args, void* workspace, int threads)
      : args_(args),
        shape_(args.shape),
        plan_(shape_, kTokenGroup, threads),
        channels_(shape_.channels()),
        state_size_(causal_state_size(shape_)),
        chunks_(causal_chunks(shape_.tokens)),
        ranges_((plan_.window + kTokenRange - 1) / kTokenRange),
        // The rows of heads must not all fall into the same few sets of a cache.
        logit_stride_(plan_.by_sample ? kTokenGroup : plan_.window + 16),
        arena_(workspace),
        stream_(
            worth_streaming(shape_.batch * shape_.tokens * channels_ * element_size(args.dtype))) {
    if (args.next_state == nullptr) state_ = arena_.take<double>(plan_.slots * state_size_);
    if (args.carry == nullptr) base_ = arena_.take<float>(plan_.slots * 2 * channels_);
    if (args.pi == nullptr) pi_ = arena_.take<float>(plan_.slots * shape_.heads * logit_stride_);
    rest_ = arena_.take<float>(plan_.slots * 2 * channels_);
    logit_ = arena_.take<float>(plan_.slots * shape_.heads * logit_stride_);
    scratch_ = arena_.take<float>(plan_.slots * ranges_ * shape_.heads * kTokenGroup);
  }

  int64_t workspace_bytes() const { return arena_.used(); }

  void run(ParallelFor parallel) {
    passes_ = &causal_passes(args_.dtype);
    if (!plan_.by_sample) return run_windows(parallel);
    for_each_sample(plan_, shape_.batch, parallel, [&](int64_t sample, int64_t slot) {
      begin(sample, slot);
      for (int64_t t = 0; t < shape_.tokens; t += kTokenGroup) {
        const int64_t end = std::min(shape_.tokens, t + kTokenGroup);
        const CausalPart part{sample, slot, t, end, 0, shape_.heads};
        logits(part);
        softmax(part);
        output(part);
      }
      finish(sample, slot);
      passes_->flush();
    });
  }

 private:
  // Output of a window and logits of the next go together: one wake-up of the threads less.
  void run_windows(ParallelFor parallel) const {
    for (int64_t sample = 0; sample < shape_.batch; ++sample) begin(sample, sample);
    int64_t done = 0, begin = 0;  // outputs are done up to there, memberships up to here
    do {
      const int64_t end = std::min(shape_.tokens, begin + plan_.window);
      for_each_head_range(shape_, parallel, [&](CausalPart part) {
        part.begin = done, part.end = begin;
        output(part);
        part.begin = begin, part.end = end;
        logits(part);
        passes_->flush();
      });
      for_each_token_range(shape_, begin, end, parallel,
                           [&](const CausalPart& part) { softmax(part); });
      done = begin, begin = end;
    } while (done < shape_.tokens);
    for (int64_t sample = 0; sample < shape_.batch; ++sample) finish(sample, sample);
  }

  double* state(int64_t sample, int64_t slot) const {
    return args_.next_state != nullptr ? args_.next_state + sample * state_size_
                                       : state_ + slot * state_size_;
  }
  float* base(int64_t sample, int64_t slot, int64_t chunk) const {
    return args_.carry != nullptr ? args_.carry + (sample * chunks_ + chunk) * 2 * channels_
                                  : base_ + slot * 2 * channels_;
  }
  float* rest(int64_t slot) const { return rest_ + slot * 2 * channels_; }

  void begin(int64_t sample, int64_t slot) const {
    double* to = state(sample, slot);
    if (args_.state == nullptr) {
      std::fill_n(to, state_size_, 0.0);
    } else {
      std::memmove(to, args_.state + sample * state_size_, state_size_ * sizeof(double));
    }
    std::fill_n(rest(slot), 2 * channels_, 0.0f);
  }

  void finish(int64_t sample, int64_t slot) const {
    if (args_.next_state == nullptr) return;
    double* total = state(sample, slot);
    const float* since = rest(slot);
    for (int64_t c = 0; c < 2 * channels_; ++c) total[c] += since[c];
  }

  // Tokens [begin, end) of a part.
  CausalBlock block(const CausalPart& part, int64_t begin, int64_t end) const {
    const int64_t window_begin = begin / plan_.window * plan_.window;
    const int64_t rows =
        (part.slot * shape_.heads + part.head) * logit_stride_ + begin - window_begin;
    const int64_t offset = part.head * shape_.width * element_size(args_.dtype);
    CausalBlock b;
    b.tokens = end - begin;
    b.heads = part.heads;
    b.width = shape_.width;
    b.w = row(args_.w, args_.dtype, part.sample, begin) + offset;
    b.w_stride = args_.w.token_stride;
    b.out = row(args_.y, args_.dtype, part.sample, begin) + offset;
    b.out_stride = args_.y.token_stride;
    b.stream = stream_;
    b.temp = args_.temp + part.head;
    b.logit = logit_ + rows;
    b.logit_stride = logit_stride_;
    b.pi_out = args_.pi == nullptr
                   ? pi_ + rows
                   : args_.pi + (part.sample * shape_.heads + part.head) * shape_.tokens + begin;
    b.pi = b.pi_out;
    b.pi_stride = args_.pi == nullptr ? logit_stride_ : shape_.tokens;
    return b;
  }

  // Calls pass(block) over the chunks of a part, moving the sums at `sums` of a state (energies or
  // weighted energies) on at the start of each.
  template <class Pass>
  void over_chunks(const CausalPart& part, int64_t sums, const Pass& pass) const {
    const int64_t at = sums + part.head * shape_.width;
    for (int64_t t = part.begin; t < part.end;) {
      const int64_t chunk = t / kCausalChunk;
      const int64_t end = std::min(part.end, (chunk + 1) * kCausalChunk);
      CausalBlock b = block(part, t, end);
      float* before = base(part.sample, part.slot, chunk) + at;
      b.base = before;
      b.rest = rest(part.slot) + at;
      if (t % kCausalChunk == 0) {
        passes_->fold(state(part.sample, part.slot) + at, b.rest, before,
                      part.heads * shape_.width);
      }
      pass(b, t, chunk);
      t = end;
    }
  }

  void logits(const CausalPart& part) const {
    const WorkTimer timer(Work::kMixing);
    over_chunks(part, 0, [&](const CausalBlock& b, int64_t, int64_t) { passes_->logits(b); });
  }

  void softmax(const CausalPart& part) const {
    const WorkTimer timer(Work::kMixing);
    CausalBlock b = block(part, part.begin, part.end);
    b.bias_tokens = std::max<int64_t>(0, args_.bias.covered(shape_.tokens) - part.begin);
    if (b.bias_tokens > 0) b.bias = args_.bias.data + args_.bias.position + part.begin;
    b.bias_stride = args_.bias.length;
    const int64_t range = part.begin % plan_.window / kTokenRange;
    b.scratch = scratch_ + (part.slot * ranges_ + range) * shape_.heads * kTokenGroup;
    passes_->softmax(b);
  }

  void output(const CausalPart& part) const {
    const WorkTimer timer(Work::kMixing);
    over_chunks(part, channels_, [&](CausalBlock& b, int64_t t, int64_t chunk) {
      b.pi_sum = state(part.sample, part.slot) + 2 * channels_ + part.head;
      if (args_.pi_carry != nullptr && t % kCausalChunk == 0) {
        const int64_t at = (part.sample * chunks_ + chunk) * shape_.heads + part.head;
        std::copy_n(b.pi_sum, part.heads, args_.pi_carry + at);
      }
      passes_->output(b);
    });
  }

  const CausalForwardArgs& args_;
  const TssaShape& shape_;
  const CausalPlan plan_;
  const int64_t channels_;
  const int64_t state_size_;
  const int64_t chunks_;
  const int64_t ranges_;  // of a softmax, in a window
  const int64_t logit_stride_;
  Arena arena_;
  const bool stream_;
  const CausalPasses* passes_ = nullptr;
  double* state_ = nullptr;  // [slots, 2 C + H]
  float* base_ = nullptr;    // [slots, 2 C]
  float* pi_ = nullptr;      // [slots, H, logit_stride]
  float* rest_;              // [slots, 2 C]
  float* logit_;             // [slots, H, logit_stride]
  float* scratch_;           // [slots, ranges, H, kTokenGroup]
};

}  // namespace

int64_t causal_forward_workspace(const CausalForwardArgs& args, int threads) {
  return CausalForwardRun(args, nullptr, threads).workspace_bytes();
}

void causal_forward(const CausalForwardArgs& args, void* workspace, ParallelFor parallel,
                    int threads) {
  CausalForwardRun(args, workspace, threads).run(parallel);
}

}  // namespace tost::kernels
