// Backward: three walks over w and grad_y (moment gradient, membership gradient, input gradient)
// with a reduction between; memberships come from the forward, everything else is recomputed.
#include <algorithm>

#include "tost/kernels/schedule.h"
#include "tost/kernels/tssa.h"
#include "tost/kernels/tssa_passes.h"

namespace tost::kernels {
namespace {

class BackwardRun {
 public:
  BackwardRun(const TssaBackwardArgs& args, void* workspace)
      : args_(args),
        shape_(args.shape),
        cut_(shape_),
        channels_(shape_.channels()),
        arena_(workspace),
        stream_(
            worth_streaming(shape_.batch * shape_.tokens * channels_ * element_size(args.dtype))) {
    const int64_t batch = shape_.batch;
    channel_parts_ = arena_.take<float>(batch * cut_.blocks * channels_);
    head_parts_ = arena_.take<float>(batch * cut_.blocks * shape_.heads);
    inv_norm_ = arena_.take<float>(batch * channels_);
    damping_ = arena_.take<float>(batch * channels_);
    moment_grad_ = arena_.take<float>(batch * channels_);
    pull_ = arena_.take<float>(batch * channels_);
    pi_offset_ = arena_.take<float>(batch * shape_.heads);
    logit_grad_ = arena_.take<float>(batch * shape_.heads * shape_.tokens);
    scratch_ = arena_.take<float>(batch * cut_.blocks * cut_.scratch);
  }

  int64_t workspace_bytes() const { return arena_.used(); }

  void run(ParallelFor parallel, int threads) {
    passes_ = &tssa_passes(args_.dtype);
    const Phase<BackwardRun> phases[] = {
        {cut_.blocks, &BackwardRun::grad_moment},
        {cut_.chunks, &BackwardRun::finish_moment, cut_.light_reductions},
        {.parts = cut_.blocks, .step = &BackwardRun::grad_membership, .backwards = true},
        {cut_.chunks, &BackwardRun::finish_pull, cut_.light_reductions},
        {cut_.blocks, &BackwardRun::grad_input}};
    const int64_t sample_bytes = 2 * shape_.tokens * channels_ * element_size(args_.dtype);
    run_phases(*this, phases, shape_.batch, sample_bytes, parallel, threads);
    sum_blocks(head_parts_, shape_.batch * cut_.blocks, shape_.heads, 0, shape_.heads,
               args_.grad_temp);
  }

 private:
  TokenCut own(int64_t sample) const { return cut_.own(args_.lengths, sample); }

  TssaBlock block(int64_t sample, int64_t part, const TokenCut& own) const {
    const int64_t first = part * own.block_tokens;
    const int64_t index = sample * cut_.blocks + part;
    const int64_t rows = sample * shape_.heads * shape_.tokens + first;
    TssaBlock b;
    b.tokens = std::min(own.block_tokens, own.tokens - first);
    b.heads = shape_.heads;
    b.width = shape_.width;
    b.w = row(args_.w, args_.dtype, sample, first);
    b.w_stride = args_.w.token_stride;
    b.g = row(args_.grad_y, args_.dtype, sample, first);
    b.g_stride = args_.grad_y.token_stride;
    b.out = row(args_.grad_w, args_.dtype, sample, first);
    b.out_stride = args_.grad_w.token_stride;
    b.stream = stream_;
    b.temp = args_.temp;
    b.inv_norm = inv_norm_ + sample * channels_;
    b.damping = damping_ + sample * channels_;
    b.moment_grad = moment_grad_ + sample * channels_;
    b.pull = pull_ + sample * channels_;
    b.pi_offset = pi_offset_ + sample * shape_.heads;
    b.pi = args_.pi + rows;
    b.grad_pi = args_.grad_pi == nullptr ? nullptr : args_.grad_pi + rows;
    b.logit_grad = logit_grad_ + rows;
    b.row_stride = shape_.tokens;
    b.channel_sum = channel_parts_ + index * channels_;
    b.head_sum = head_parts_ + index * shape_.heads;
    b.scratch = scratch_ + index * cut_.scratch;
    return b;
  }

  void grad_moment(int64_t sample, int64_t part) const {
    const TokenCut cut = own(sample);
    if (part < cut.blocks) passes_->grad_moment(block(sample, part, cut));
  }
  void grad_membership(int64_t sample, int64_t part) const {
    const TokenCut cut = own(sample);
    float* grad_temp = head_parts_ + (sample * cut_.blocks + part) * shape_.heads;
    if (part >= cut.blocks) {  // a block of padding adds nothing
      std::fill_n(grad_temp, shape_.heads, 0.0f);
      return;
    }
    passes_->grad_membership(block(sample, part, cut));
  }
  void grad_input(int64_t sample, int64_t part) const {
    const TokenCut cut = own(sample);
    if (part < cut.blocks) passes_->grad_input(block(sample, part, cut));
    if (cut.tokens == shape_.tokens) return;
    clear_tokens(args_.grad_w, args_.dtype, sample, {cut_.whole, cut.tokens, part}, channels_);
  }

  void finish_moment(int64_t sample, int64_t chunk) const {
    const int64_t first = chunk * cut_.chunk_heads;
    const int64_t last = std::min(shape_.heads, first + cut_.chunk_heads);
    const int64_t at = sample * channels_;
    float* grad = moment_grad_ + at;
    sum_blocks(channel_parts_ + at * cut_.blocks, own(sample).blocks, channels_,
               first * shape_.width, last * shape_.width, grad);
    for (int64_t k = first; k < last; ++k) {
      const float weight = args_.pi_sum[sample * shape_.heads + k] + 1e-8f;
      double offset = 0.0;
      for (int64_t c = k * shape_.width; c < (k + 1) * shape_.width; ++c) {
        const float damping = 1.0f / (1.0f + args_.moment[at + c]);
        inv_norm_[at + c] = inverse_norm(args_.energy[at + c]);
        damping_[at + c] = damping;
        grad[c] = grad[c] * damping * damping / weight;
        offset += static_cast<double>(grad[c]) * args_.moment[at + c];
      }
      pi_offset_[sample * shape_.heads + k] = static_cast<float>(offset);
    }
  }

  void finish_pull(int64_t sample, int64_t chunk) const {
    const int64_t at = sample * channels_;
    const int64_t begin = chunk * cut_.chunk_heads * shape_.width;
    const int64_t end = std::min(channels_, begin + cut_.chunk_heads * shape_.width);
    sum_blocks(channel_parts_ + at * cut_.blocks, own(sample).blocks, channels_, begin, end,
               pull_ + at);
    for (int64_t c = begin; c < end; ++c) {
      if (norm_is_clamped(args_.energy[at + c])) pull_[at + c] = 0.0f;
    }
  }

  const TssaBackwardArgs& args_;
  const TssaShape& shape_;
  const TssaCut cut_;
  const int64_t channels_;
  Arena arena_;
  const bool stream_;
  const TssaPasses* passes_ = nullptr;
  float* channel_parts_;  // [B, blocks, C]: of G, then of sum da v^2
  float* head_parts_;     // [B, blocks, H]: of grad_temp
  float* inv_norm_;       // [B, C]
  float* damping_;        // [B, C]
  float* moment_grad_;    // [B, C]
  float* pull_;           // [B, C]
  float* pi_offset_;      // [B, H]
  float* logit_grad_;     // [B, H, N]
  float* scratch_;        // [B, blocks, scratch]
};

}  // namespace

int64_t tssa_backward_workspace(const TssaBackwardArgs& args) {
  return BackwardRun(args, nullptr).workspace_bytes();
}

void tssa_backward(const TssaBackwardArgs& args, void* workspace, ParallelFor parallel,
                   int threads) {
  BackwardRun(args, workspace).run(parallel, threads);
}

}  // namespace tost::kernels
