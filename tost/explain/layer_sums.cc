#include "tost/explain/layer_sums.h"

#include "tost/explain/token_correlations.h"
#include "tost/ops/coding_rate.h"

namespace tost {
namespace {

using torch::Tensor;

void append(std::vector<double>& values, const Tensor& more) {
  const auto flat = more.to(torch::kDouble).flatten().contiguous();
  values.insert(values.end(), flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
}

void add_to(Tensor& sum, const Tensor& batch) {
  const auto total = batch.sum(0);
  sum = sum.defined() ? sum + total : total;
}

// The bound of unit-norm heads at scale P / eps^2.
Tensor unit_rate(const Tensor& w, const Tensor& pi) {
  const int64_t heads = pi.size(-2);
  const double scale = double(w.size(-1)) / double(heads) / kEpsilonSquared;
  return compression_bound(unit_heads(w, heads), pi, scale);
}

}  // namespace

LayerSums::LayerSums(std::shared_ptr<Block> block, const StatisticsOptions& options)
    : block_(std::move(block)), full_(options.full), bound_(options.bound) {}

void LayerSums::add(const VisionTrace& trace, size_t index, const LayerRates& rates) {
  const int64_t patches = trace.rows * trace.columns;
  if (full_) {
    const auto norms = trace.block_outputs[index].norm(2, 2);
    norms_.push_back(norms.narrow(1, 0, patches).flatten());
    if (trace.registers > 0) {
      register_norms_.push_back(norms.narrow(1, patches, trace.registers).flatten());
    }
  }
  if (!rates.defined()) return;
  const Tensor &w = trace.projections[index], &pi = trace.memberships[index];
  has_memberships_ = true;
  append(entropy_, membership_entropy(pi).mean(1));
  append(input_, rates.compression_before);
  append(after_, rates.compression_after);
  append(change_, rates.compression_after - rates.compression_before);
  append(lowered_, rates.compression_after < rates.compression_before);
  append(output_, unit_rate(project_heads(trace.mixer_outputs[index].to(torch::kDouble),
                                          block_->attn->subspaces().to(torch::kDouble)),
                            pi));
  if (bound_) add_bounds(trace, index, rates);
  if (full_) add_correlations(w, pi);
}

void LayerSums::add_bounds(const VisionTrace& trace, size_t index, const LayerRates& rates) {
  if (gaps_.empty()) {
    gaps_ = {{.scale = 1}, {.scale = double(trace.projections[index].size(2)) / kEpsilonSquared}};
  }
  for (size_t i = 0; i < gaps_.size(); ++i) {
    const BoundAndExact& found = i == 0 ? rates.released : rates.theory;
    append(gaps_[i].bound, found.bound);
    append(gaps_[i].exact_heads, found.exact);
    append(gaps_[i].exact_space,
           compression_rate(trace.mixer_inputs[index], trace.memberships[index], gaps_[i].scale));
    append(gaps_[i].gap, found.bound - found.exact);
  }
  append(step_.before, rates.objective);
  append(step_.stepped, rates.objective_stepped);
  append(step_.unscaled, rates.objective_unscaled);
  append(step_.lowered, rates.objective_stepped < rates.objective);
  append(step_.lowered_unscaled, rates.objective_unscaled < rates.objective);
}

void LayerSums::add_correlations(const Tensor& w, const Tensor& pi) {
  const HeadCorrelations found = head_correlations(w, pi);
  add_to(correlations_, found.absolute);
  add_to(centered_, found.centered);
  add_to(off_diagonal_, found.off_diagonal);
  add_to(centered_off_diagonal_, found.centered_off_diagonal);
  append(chance_, found.chance.mean(1));
  pictures_ += w.size(0);
  append(share_, head_compression_rate(w, pi, 1) / compression_bound(w, pi, 1));
  const int64_t heads = pi.size(1);
  const auto unit = unit_heads(w, heads);
  const double scale = double(w.size(2)) / double(heads) / kEpsilonSquared;
  append(share_unit_, head_compression_rate(unit, pi, scale) / compression_bound(unit, pi, scale));
}

LayerStatistics LayerSums::result() const {
  LayerStatistics layer;
  layer.has_memberships = has_memberships_;
  layer.entropy = spread_of(entropy_);
  layer.rate_input = spread_of(input_);
  layer.rate_output = spread_of(output_);
  layer.rate_after = spread_of(after_);
  layer.rate_change = spread_of(change_);
  layer.rate_lowered = spread_of(lowered_).mean;
  if (pictures_ > 0) {
    layer.correlations = correlations_ / double(pictures_);
    layer.off_diagonal = off_diagonal_ / double(pictures_);
    layer.centered = centered_ / double(pictures_);
    layer.centered_off_diagonal = centered_off_diagonal_ / double(pictures_);
    layer.off_diagonal_mean = spread_of(layer.off_diagonal).mean;
    layer.centered_off_diagonal_mean = spread_of(layer.centered_off_diagonal).mean;
    layer.off_diagonal_chance = spread_of(chance_).mean;
    layer.diagonal_share = spread_of(share_);
    layer.diagonal_share_unit = spread_of(share_unit_);
  }
  if (!norms_.empty()) {
    layer.norms = norm_statistics(torch::cat(norms_),
                                  register_norms_.empty() ? Tensor() : torch::cat(register_norms_));
  }
  for (const GapValues& values : gaps_) {
    layer.gaps.push_back({values.scale, spread_of(values.bound), spread_of(values.exact_heads),
                          spread_of(values.exact_space), spread_of(values.gap)});
  }
  layer.objective = {spread_of(step_.before), spread_of(step_.stepped), spread_of(step_.unscaled),
                     spread_of(step_.lowered).mean, spread_of(step_.lowered_unscaled).mean};
  return layer;
}

}  // namespace tost
