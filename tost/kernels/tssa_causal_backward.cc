// Causal backward, from the last chunk to the first: membership gradient, softmax, input gradient.
#include <algorithm>

#include "tost/kernels/causal_schedule.h"
#include "tost/kernels/schedule.h"

namespace tost::kernels {
namespace {

class CausalBackwardRun {
 public:
  CausalBackwardRun(const CausalBackwardArgs& args, void* workspace, int threads)
      : args_(args),
        shape_(args.shape),
        plan_(shape_, kCausalChunk, threads),
        channels_(shape_.channels()),
        chunks_(causal_chunks(shape_.tokens)),
        biased_(args.bias.covered(shape_.tokens)),
        // The rows of heads must not all fall into the same few sets of a cache.
        grad_stride_(plan_.window + 16),
        arena_(workspace),
        stream_(
            worth_streaming(shape_.batch * shape_.tokens * channels_ * element_size(args.dtype))) {
    total_ = arena_.take<double>(plan_.slots * 2 * channels_);
    weight_pull_ = arena_.take<double>(plan_.slots * shape_.heads);
    grad_temp_ = arena_.take<double>(shape_.batch * shape_.heads);
    base_ = arena_.take<float>(plan_.slots * 2 * channels_);
    rest_ = arena_.take<float>(plan_.slots * 2 * channels_);
    grad_ = arena_.take<float>(plan_.slots * shape_.heads * grad_stride_);
    direct_ = arena_.take<float>(plan_.slots * plan_.window * channels_);
    logit_grad_ = arena_.take<float>(shape_.batch * shape_.heads * biased_);
  }

  int64_t workspace_bytes() const { return arena_.used(); }

  void run(ParallelFor parallel) {
    passes_ = &causal_passes(args_.dtype);
    if (plan_.by_sample) {
      for_each_sample(plan_, shape_.batch, parallel, [&](int64_t sample, int64_t slot) {
        begin(sample, slot);
        for (int64_t chunk = chunks_ - 1; chunk >= 0; --chunk) {
          const int64_t first = chunk * kCausalChunk;
          const CausalPart part{
              sample, slot, first, std::min(shape_.tokens, first + kCausalChunk), 0, shape_.heads};
          grad_membership(part);
          grad_softmax(part);
          grad_input(part);
        }
        passes_->flush();
      });
    } else {
      run_windows(parallel);
    }
    const auto finish_heads = [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) finish_head(k);
    };
    plan_.alone ? finish_heads(0, shape_.heads) : parallel(shape_.heads, finish_heads);
  }

 private:
  // Input gradients of a window and membership gradients of the one before it go together: one
  // wake-up of the threads less.
  void run_windows(ParallelFor parallel) const {
    for (int64_t sample = 0; sample < shape_.batch; ++sample) begin(sample, sample);
    int64_t done = shape_.tokens, end = done;  // input gradients from there, memberships from here
    do {
      const int64_t begin = end == 0 ? 0 : (end - 1) / plan_.window * plan_.window;
      for_each_head_range(shape_, parallel, [&](CausalPart part) {
        part.begin = end, part.end = done;
        grad_input(part);
        part.begin = begin, part.end = end;
        grad_membership(part);
        passes_->flush();
      });
      for_each_token_range(shape_, begin, end, parallel,
                           [&](const CausalPart& part) { grad_softmax(part); });
      done = end, end = begin;
    } while (done > 0);
  }

  void begin(int64_t sample, int64_t slot) const {
    std::fill_n(total_ + slot * 2 * channels_, 2 * channels_, 0.0);
    std::fill_n(rest_ + slot * 2 * channels_, 2 * channels_, 0.0f);
    std::fill_n(weight_pull_ + slot * shape_.heads, shape_.heads, 0.0);
    std::fill_n(grad_temp_ + sample * shape_.heads, shape_.heads, 0.0);
  }

  // Tokens [begin, end) of a part, within one chunk where a pass wants the chunk's sums.
  CausalBlock block(const CausalPart& part, int64_t begin, int64_t end) const {
    const int64_t window_begin = begin / plan_.window * plan_.window;
    const int64_t head = part.sample * shape_.heads + part.head;
    const int64_t channel = part.head * shape_.width;
    const int64_t chunk = part.sample * chunks_ + begin / kCausalChunk;
    const int64_t offset = channel * element_size(args_.dtype);
    CausalBlock b;
    b.tokens = end - begin;
    b.heads = part.heads;
    b.width = shape_.width;
    b.w = row(args_.w, args_.dtype, part.sample, begin) + offset;
    b.w_stride = args_.w.token_stride;
    b.g = row(args_.grad_y, args_.dtype, part.sample, begin) + offset;
    b.g_stride = args_.grad_y.token_stride;
    b.out = row(args_.grad_w, args_.dtype, part.sample, begin) + offset;
    b.out_stride = args_.grad_w.token_stride;
    b.stream = stream_;
    b.temp = args_.temp + part.head;
    b.logit =
        grad_ + (part.slot * shape_.heads + part.head) * grad_stride_ + (begin - window_begin);
    b.logit_stride = grad_stride_;
    b.pi = args_.pi + head * shape_.tokens + begin;
    if (args_.grad_pi != nullptr) b.grad_pi = args_.grad_pi + head * shape_.tokens + begin;
    b.pi_stride = shape_.tokens;
    b.energy_base = args_.carry + chunk * 2 * channels_ + channel;
    b.moment_base = b.energy_base + channels_;
    b.pi_base = args_.pi_carry + chunk * shape_.heads + part.head;
    b.weight_pull = weight_pull_ + part.slot * shape_.heads + part.head;
    b.grad_temp = grad_temp_ + head;
    b.direct = direct_ + (part.slot * plan_.window + begin - window_begin) * channels_ + channel;
    b.direct_stride = channels_;
    return b;
  }

  // Calls pass(block) over the chunks of a part, last first, moving the reverse sums at `sums` (of
  // the moment or of the energy) on before each.
  void over_chunks(const CausalPart& part, int64_t sums, void (*pass)(const CausalBlock&)) const {
    const int64_t at = part.slot * 2 * channels_ + sums + part.head * shape_.width;
    for (int64_t end = part.end; end > part.begin;) {
      const int64_t begin = (end - 1) / kCausalChunk * kCausalChunk;
      CausalBlock b = block(part, begin, end);
      passes_->fold(total_ + at, rest_ + at, base_ + at, part.heads * shape_.width);
      b.base = base_ + at;
      b.rest = rest_ + at;
      pass(b);
      end = begin;
    }
  }

  void grad_membership(const CausalPart& part) const {
    over_chunks(part, 0, passes_->grad_membership);
  }
  void grad_input(const CausalPart& part) const {
    over_chunks(part, channels_, passes_->grad_input);
  }

  void grad_softmax(const CausalPart& part) const {
    const CausalBlock b = block(part, part.begin, part.end);
    passes_->grad_softmax(b);
    const int64_t kept = std::clamp<int64_t>(biased_ - part.begin, 0, b.tokens);
    for (int64_t k = 0; k < b.heads; ++k) {
      std::copy_n(b.logit + k * b.logit_stride, kept,
                  logit_grad_ + (part.sample * shape_.heads + k) * biased_ + part.begin);
    }
  }

  // The sums over samples: gradients of a head's temp and biases.
  void finish_head(int64_t k) const {
    const auto width = static_cast<double>(shape_.width);
    double temp_grad = 0;
    for (int64_t sample = 0; sample < shape_.batch; ++sample)
      temp_grad += grad_temp_[sample * shape_.heads + k];
    float* grad = args_.grad_bias + k * args_.bias.length;
    std::fill_n(grad, args_.bias.length, 0.0f);
    for (int64_t t = 0; t < biased_; ++t) {
      double sum = 0;
      for (int64_t sample = 0; sample < shape_.batch; ++sample)
        sum += logit_grad_[(sample * shape_.heads + k) * biased_ + t];
      const int64_t at = args_.bias.position + t;
      grad[at] = static_cast<float>(width * args_.temp[k] * sum);
      temp_grad += width * args_.bias.data[k * args_.bias.length + at] * sum;
    }
    args_.grad_temp[k] = static_cast<float>(temp_grad);
  }

  const CausalBackwardArgs& args_;
  const TssaShape& shape_;
  const CausalPlan plan_;
  const int64_t channels_;
  const int64_t chunks_;
  const int64_t biased_;  // tokens with a bias
  const int64_t grad_stride_;
  Arena arena_;
  const bool stream_;
  const CausalPasses* passes_ = nullptr;
  double* total_;        // [slots, 2 C]: reverse sums of the moment's and the energy's gradients
  double* weight_pull_;  // [slots, H]
  double* grad_temp_;    // [B, H]
  float* base_;          // [slots, 2 C]
  float* rest_;          // [slots, 2 C]
  float* grad_;          // [slots, H, grad_stride]: dPi, then dlogit
  float* direct_;        // [slots, window, C]
  float* logit_grad_;    // [B, H, biased]
};

}  // namespace

int64_t causal_backward_workspace(const CausalBackwardArgs& args, int threads) {
  return CausalBackwardRun(args, nullptr, threads).workspace_bytes();
}

void causal_backward(const CausalBackwardArgs& args, void* workspace, ParallelFor parallel,
                     int threads) {
  CausalBackwardRun(args, workspace, threads).run(parallel);
}

}  // namespace tost::kernels
