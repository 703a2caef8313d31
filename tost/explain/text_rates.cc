#include "tost/explain/text_rates.h"

#include "tost/explain/token_correlations.h"
#include "tost/ops/coding_rate.h"

namespace tost {

using torch::Tensor;

namespace {

void append(std::vector<double>& values, const Tensor& more) {
  const Tensor flat = more.detach().to(torch::kDouble).flatten().contiguous();
  values.insert(values.end(), flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
}

void add_to(Tensor& sum, const Tensor& batch) {
  const Tensor total = batch.sum(0);
  sum = sum.defined() ? sum + total : total;
}

double unit_scale(const Tensor& w, const Tensor& pi) {
  return double(w.size(-1)) / double(pi.size(-2)) / kEpsilonSquared;
}

// The bound of unit-norm heads at scale P / eps^2.
Tensor unit_rate(const Tensor& w, const Tensor& pi) {
  return compression_bound(unit_heads(w, pi.size(-2)), pi, unit_scale(w, pi));
}

}  // namespace

void TextRates::add(const GptTrace& trace, const LayerRates& rates) {
  norms_.push_back(trace.output.norm(2, 2).flatten());
  if (!rates.defined()) return;
  const torch::NoGradGuard no_grad;
  const Tensor &w = trace.mixer.w, &pi = trace.mixer.pi;
  const Tensor u = block_->attn->subspaces().to(torch::kDouble);
  append(input_, rates.compression_before);
  append(output_, unit_rate(project_heads(trace.mixer_output.to(torch::kDouble), u), pi));
  append(after_, rates.compression_after);
  add_correlations(w, pi);
  if (!bound_) return;
  append(step_[0], rates.objective);
  append(step_[1], rates.objective_stepped);
  append(step_[2], rates.objective_unscaled);
  append(lowered_[0], (rates.objective_stepped < rates.objective).to(torch::kDouble));
  append(lowered_[1], (rates.objective_unscaled < rates.objective).to(torch::kDouble));
  const BoundAndExact* found[] = {&rates.released, &rates.theory};
  for (size_t i = 0; i < 2; ++i) {
    append(bounds_[i], found[i]->bound);
    append(exact_[i], found[i]->exact);
    append(gaps_[i], found[i]->bound - found[i]->exact);
  }
}

void TextRates::add_correlations(const Tensor& w, const Tensor& pi) {
  const HeadCorrelations found = head_correlations(w, pi);
  add_to(correlations_, found.absolute);
  add_to(off_diagonal_, found.off_diagonal);
  append(chance_, found.chance.mean(1));
  windows_ += w.size(0);
  append(share_, head_compression_rate(w, pi, 1) / compression_bound(w, pi, 1));
  const Tensor unit = unit_heads(w, pi.size(1));
  const double scale = unit_scale(w, pi);
  append(share_unit_, head_compression_rate(unit, pi, scale) / compression_bound(unit, pi, scale));
}

LayerStatistics TextRates::result() const {
  LayerStatistics layer;
  layer.has_memberships = windows_ > 0;
  layer.rate_input = spread_of(input_);
  layer.rate_output = spread_of(output_);
  layer.rate_after = spread_of(after_);
  if (windows_ > 0) {
    layer.correlations = correlations_ / double(windows_);
    layer.off_diagonal = off_diagonal_ / double(windows_);
    layer.off_diagonal_mean = spread_of(layer.off_diagonal).mean;
    layer.off_diagonal_chance = spread_of(chance_).mean;
    layer.diagonal_share = spread_of(share_);
    layer.diagonal_share_unit = spread_of(share_unit_);
  }
  if (!norms_.empty()) layer.norms = norm_statistics(torch::cat(norms_), {});
  if (bounds_[0].empty()) return layer;
  const double scales[] = {1, double(block_->gamma1.size(0)) / kEpsilonSquared};
  for (size_t i = 0; i < 2; ++i) {
    RateGap gap;
    gap.scale = scales[i];
    gap.bound = spread_of(bounds_[i]);
    gap.exact_heads = spread_of(exact_[i]);
    gap.gap = spread_of(gaps_[i]);
    layer.gaps.push_back(gap);
  }
  layer.objective = {spread_of(step_[0]), spread_of(step_[1]), spread_of(step_[2]),
                     spread_of(lowered_[0]).mean, spread_of(lowered_[1]).mean};
  return layer;
}

}  // namespace tost
