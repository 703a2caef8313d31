// Forward: three walks over w (energy, memberships and second moments, output) with a reduction
// between.
#include <algorithm>

#include "tost/kernels/schedule.h"
#include "tost/kernels/tssa.h"
#include "tost/kernels/tssa_passes.h"
#include "tost/kernels/work_times.h"

namespace tost::kernels {
namespace {

class ForwardRun {
 public:
  ForwardRun(const TssaForwardArgs& args, void* workspace)
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
    energy_ = args.energy != nullptr ? args.energy : arena_.take<float>(batch * channels_);
    moment_ = args.moment != nullptr ? args.moment : arena_.take<float>(batch * channels_);
    pi_sum_ = args.pi_sum != nullptr ? args.pi_sum : arena_.take<float>(batch * shape_.heads);
    pi_ = args.pi != nullptr ? args.pi : arena_.take<float>(batch * shape_.heads * shape_.tokens);
    scratch_ = arena_.take<float>(batch * cut_.blocks * cut_.scratch);
  }

  int64_t workspace_bytes() const { return arena_.used(); }

  void run(ParallelFor parallel, int threads) {
    passes_ = &tssa_passes(args_.dtype);
    const Phase<ForwardRun> phases[] = {
        {cut_.blocks, &ForwardRun::energy},
        {cut_.chunks, &ForwardRun::finish_energy, cut_.light_reductions},
        {.parts = cut_.blocks, .step = &ForwardRun::membership, .backwards = true},
        {cut_.chunks, &ForwardRun::finish_moment, cut_.light_reductions},
        {cut_.blocks, &ForwardRun::output}};
    const int64_t sample_bytes = shape_.tokens * channels_ * element_size(args_.dtype);
    run_phases(*this, phases, shape_.batch, sample_bytes, parallel, threads);
  }

 private:
  TokenCut own(int64_t sample) const { return cut_.own(args_.lengths, sample); }

  TssaBlock block(int64_t sample, int64_t part, const TokenCut& own) const {
    const int64_t first = part * own.block_tokens;
    const int64_t index = sample * cut_.blocks + part;
    TssaBlock b;
    b.tokens = std::min(own.block_tokens, own.tokens - first);
    b.heads = shape_.heads;
    b.width = shape_.width;
    b.w = row(args_.w, args_.dtype, sample, first);
    b.w_stride = args_.w.token_stride;
    b.out = row(args_.y, args_.dtype, sample, first);
    b.out_stride = args_.y.token_stride;
    b.stream = stream_;
    b.temp = args_.temp;
    b.inv_norm = inv_norm_ + sample * channels_;
    b.damping = damping_ + sample * channels_;
    b.pi_out = pi_ + sample * shape_.heads * shape_.tokens + first;
    b.pi = b.pi_out;
    b.row_stride = shape_.tokens;
    b.channel_sum = channel_parts_ + index * channels_;
    b.head_sum = head_parts_ + index * shape_.heads;
    b.scratch = scratch_ + index * cut_.scratch;
    return b;
  }

  void energy(int64_t sample, int64_t part) const {
    const WorkTimer timer(Work::kMixing);
    const TokenCut cut = own(sample);
    if (part < cut.blocks) passes_->energy(block(sample, part, cut));
  }
  void membership(int64_t sample, int64_t part) const {
    const WorkTimer timer(Work::kMixing);
    const TokenCut cut = own(sample);
    if (part < cut.blocks) passes_->membership(block(sample, part, cut));
  }
  void output(int64_t sample, int64_t part) const {
    const WorkTimer timer(Work::kMixing);
    const TokenCut cut = own(sample);
    if (part < cut.blocks) passes_->output(block(sample, part, cut));
    if (cut.tokens < shape_.tokens) clear_padding(sample, {cut_.whole, cut.tokens, part});
  }

  void clear_padding(int64_t sample, const PaddingRange& range) const {
    clear_tokens(args_.y, args_.dtype, sample, range, channels_);
    float* pi = pi_ + sample * shape_.heads * shape_.tokens + range.first;
    for (int64_t k = 0; k < shape_.heads; ++k, pi += shape_.tokens) {
      std::fill_n(pi, range.count, 0.0f);
    }
  }

  void finish_energy(int64_t sample, int64_t chunk) const {
    const int64_t begin = chunk * cut_.chunk_heads * shape_.width;
    const int64_t end = std::min(channels_, begin + cut_.chunk_heads * shape_.width);
    float* energy = energy_ + sample * channels_;
    sum_blocks(channel_parts_ + sample * cut_.blocks * channels_, own(sample).blocks, channels_,
               begin, end, energy);
    for (int64_t c = begin; c < end; ++c)
      inv_norm_[sample * channels_ + c] = inverse_norm(energy[c]);
  }

  void finish_moment(int64_t sample, int64_t chunk) const {
    const int64_t first = chunk * cut_.chunk_heads;
    const int64_t last = std::min(shape_.heads, first + cut_.chunk_heads);
    float* pi_sum = pi_sum_ + sample * shape_.heads;
    float* moment = moment_ + sample * channels_;
    const int64_t blocks = own(sample).blocks;
    sum_blocks(head_parts_ + sample * cut_.blocks * shape_.heads, blocks, shape_.heads, first, last,
               pi_sum);
    sum_blocks(channel_parts_ + sample * cut_.blocks * channels_, blocks, channels_,
               first * shape_.width, last * shape_.width, moment);
    for (int64_t k = first; k < last; ++k) {
      const float weight = pi_sum[k] + 1e-8f;
      for (int64_t c = k * shape_.width; c < (k + 1) * shape_.width; ++c) {
        moment[c] /= weight;
        damping_[sample * channels_ + c] = 1.0f / (1.0f + moment[c]);
      }
    }
  }

  const TssaForwardArgs& args_;
  const TssaShape& shape_;
  const TssaCut cut_;
  const int64_t channels_;
  Arena arena_;
  const bool stream_;
  const TssaPasses* passes_ = nullptr;
  float* channel_parts_;  // [B, blocks, C]: of the energy, then of the moment
  float* head_parts_;     // [B, blocks, H]
  float* inv_norm_;       // [B, C]
  float* damping_;        // [B, C]
  float* energy_;         // [B, C]
  float* moment_;         // [B, C]
  float* pi_sum_;         // [B, H]
  float* pi_;             // [B, H, N]
  float* scratch_;        // [B, blocks, scratch]
};

}  // namespace

int64_t tssa_forward_workspace(const TssaForwardArgs& args) {
  return ForwardRun(args, nullptr).workspace_bytes();
}

void tssa_forward(const TssaForwardArgs& args, void* workspace, ParallelFor parallel, int threads) {
  ForwardRun(args, workspace).run(parallel, threads);
}

}  // namespace tost::kernels
