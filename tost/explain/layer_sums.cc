#include "tost/explain/layer_sums.h"

#include <numbers>

#include "tost/explain/report.h"
#include "tost/ops/coding_rate.h"

namespace tost {
namespace {

using nlohmann::json;
using torch::Tensor;

void append(std::vector<double>& values, const Tensor& more) {
  const auto numbers = numbers_of(more);
  values.insert(values.end(), numbers.begin(), numbers.end());
}

void add_to(Tensor& sum, const Tensor& batch) {
  const auto total = batch.sum(0);
  sum = sum.defined() ? sum + total : total;
}

// Absolute correlations |r| from second moments [..., P, P].
Tensor absolute_correlation(const Tensor& moments) {
  const auto variance = moments.diagonal(0, -2, -1);
  // A variance below the rounding error of the largest variance counts as 0.
  const auto least = 1e-12 * variance.amax(-1, /*keepdim=*/true);
  const auto scale = torch::where(variance > least, variance, torch::zeros_like(variance)).sqrt();
  const auto product = scale.unsqueeze(-1) * scale.unsqueeze(-2);
  const auto r = moments / product.clamp_min(1e-300);
  return torch::where(product > 0, r, torch::zeros_like(r)).abs().clamp_max(1);
}

Tensor mean_off_diagonal(const Tensor& matrices) {
  const auto width = double(matrices.size(-1));
  const auto diagonal = matrices.diagonal(0, -2, -1).sum(-1);
  return (matrices.sum({-2, -1}) - diagonal) / (width * (width - 1));
}

}  // namespace

LayerSums::LayerSums(const Tensor& u, bool full, bool bound)
    : u_(u.defined() ? u.detach().to(torch::kDouble) : u), full_(full), bound_(bound) {}

void LayerSums::add(const BlockTrace& seen, const LayerRates& rates, int64_t registers) {
  if (full_) add_norms(seen.output, registers);
  if (seen.codes.defined()) add_codes(seen.codes, registers);
  if (!rates.defined()) return;
  has_memberships_ = true;
  append(entropy_, membership_entropy(seen.mixer.pi).mean(1));
  append(input_, rates.compression_before);
  append(after_, rates.compression_after);
  append(change_, rates.compression_after - rates.compression_before);
  append(lowered_, rates.compression_after < rates.compression_before);
  append(output_,
         layer_compression(project_heads(seen.mixer_output.to(torch::kDouble), u_), seen.mixer.pi));
  if (bound_) add_bounds(seen, rates);
  if (full_) add_correlations(seen, rates);
}

void LayerSums::add_norms(const Tensor& output, int64_t registers) {
  const Tensor norms = output.norm(2, 2);
  const int64_t without_registers = norms.size(1) - registers;
  norms_.push_back(norms.narrow(1, 0, without_registers).flatten());
  if (registers > 0) {
    register_norms_.push_back(norms.narrow(1, without_registers, registers).flatten());
  }
}

void LayerSums::add_codes(const Tensor& all, int64_t registers) {
  const Tensor codes = all.narrow(1, 0, all.size(1) - registers).to(torch::kDouble);
  append(nonzero_, (codes != 0).to(torch::kDouble).mean({1, 2}));
  append(l1_, codes.sum(2).mean(1));  // no code is negative
}

void LayerSums::add_bounds(const BlockTrace& seen, const LayerRates& rates) {
  if (gaps_.empty()) {
    gaps_ = {{.scale = 1}, {.scale = double(seen.mixer.w.size(2)) / kEpsilonSquared}};
  }
  for (size_t i = 0; i < gaps_.size(); ++i) {
    const BoundAndExact& found = i == 0 ? rates.released : rates.theory;
    append(gaps_[i].bound, found.bound);
    append(gaps_[i].exact_heads, found.exact);
    if (seen.mixer_input.defined()) {
      append(gaps_[i].exact_space,
             compression_rate(seen.mixer_input, seen.mixer.pi, gaps_[i].scale));
    }
    append(gaps_[i].gap, found.bound - found.exact);
  }
  append(step_.before, rates.objective);
  append(step_.stepped, rates.objective_stepped);
  append(step_.unscaled, rates.objective_unscaled);
  append(step_.lowered, rates.objective_stepped < rates.objective);
  append(step_.lowered_unscaled, rates.objective_unscaled < rates.objective);
}

void LayerSums::add_correlations(const BlockTrace& seen, const LayerRates& rates) {
  const HeadCorrelations found = head_correlations(seen.mixer.w, seen.mixer.pi);
  add_to(correlations_, found.absolute);
  add_to(centered_, found.centered);
  add_to(off_diagonal_, found.off_diagonal);
  add_to(centered_off_diagonal_, found.centered_off_diagonal);
  append(chance_, found.chance.mean(1));
  samples_ += seen.mixer.w.size(0);
  append(share_, rates.released.exact / rates.released.bound);
  const int64_t heads = seen.mixer.pi.size(1);
  const double scale = double(seen.mixer.w.size(2)) / double(heads) / kEpsilonSquared;
  append(share_unit_, head_compression_rate(unit_heads(seen.mixer.w, heads), seen.mixer.pi, scale) /
                          rates.compression_before);
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
  if (samples_ > 0) {
    layer.correlations = correlations_ / double(samples_);
    layer.off_diagonal = off_diagonal_ / double(samples_);
    layer.centered = centered_ / double(samples_);
    layer.centered_off_diagonal = centered_off_diagonal_ / double(samples_);
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
  layer.nonzero = spread_of(nonzero_);
  layer.l1 = spread_of(l1_);
  return layer;
}

json to_json(const Spread& s) {
  return {
      {"mean", number_or_null(s.mean)}, {"std", number_or_null(s.deviation)}, {"count", s.count}};
}

json to_json(const NormStatistics& n) {
  return {{"tokens", n.tokens},
          {"mean", number_or_null(n.mean)},
          {"std", number_or_null(n.deviation)},
          {"median", number_or_null(n.median)},
          {"max", number_or_null(n.largest)},
          {"share_beyond_mean_plus_4_std", number_or_null(n.beyond_deviations)},
          {"share_beyond_3_medians", number_or_null(n.beyond_medians)},
          {"histogram", n.histogram},
          {"register_mean", number_or_null(n.register_mean)}};
}

json to_json(const LayerStatistics& layer, const std::vector<int64_t>& heads, int digits) {
  json object = {{"has_memberships", layer.has_memberships},
                 {"entropy", to_json(layer.entropy)},
                 {"compression",
                  {{"input", to_json(layer.rate_input)},
                   {"output_before_residual", to_json(layer.rate_output)},
                   {"after_residual", to_json(layer.rate_after)},
                   {"after_less_input", to_json(layer.rate_change)}}},
                 {"compression_share_lowered", number_or_null(layer.rate_lowered)}};
  if (layer.off_diagonal.defined()) {
    object["correlation"] = {
        {"mean_off_diagonal", number_or_null(layer.off_diagonal_mean)},
        {"by_head", rounded(layer.off_diagonal, 6)},
        {"centered_mean_off_diagonal", number_or_null(layer.centered_off_diagonal_mean)},
        {"centered_by_head", rounded(layer.centered_off_diagonal, 6)},
        {"by_chance", number_or_null(layer.off_diagonal_chance)},
        {"diagonal_share", to_json(layer.diagonal_share)},
        {"diagonal_share_unit_heads", to_json(layer.diagonal_share_unit)}};
    for (const int64_t head : heads) {
      object["correlation"]["matrices"].push_back(
          {{"head", head},
           {"absolute", rounded(layer.correlations[head - 1], digits)},
           {"centered", rounded(layer.centered[head - 1], digits)}});
    }
  }
  if (layer.norms.tokens > 0) object["norms"] = to_json(layer.norms);
  for (const RateGap& g : layer.gaps) {
    object["bound"].push_back({{"scale", g.scale},
                               {"bound", to_json(g.bound)},
                               {"exact_in_heads", to_json(g.exact_heads)},
                               {"exact_in_space", to_json(g.exact_space)},
                               {"gap", to_json(g.gap)},
                               {"relative_gap", number_or_null(g.gap.mean / g.bound.mean)}});
  }
  if (!layer.gaps.empty()) {
    const ObjectiveStep& o = layer.objective;
    object["objective"] = {{"before", to_json(o.before)},
                           {"stepped", to_json(o.stepped)},
                           {"unscaled", to_json(o.unscaled)},
                           {"share_lowered", number_or_null(o.lowered)},
                           {"share_lowered_unscaled", number_or_null(o.lowered_unscaled)}};
  }
  if (layer.nonzero.count > 0) {
    object["sparsity"] = {{"nonzero", to_json(layer.nonzero)}, {"l1", to_json(layer.l1)}};
  }
  return object;
}

NormStatistics norm_statistics(const torch::Tensor& patches, const torch::Tensor& registers) {
  NormStatistics result;
  if (registers.defined()) result.register_mean = spread_of(registers).mean;
  const auto all = patches.to(torch::kDouble).flatten();
  const auto norms = all.masked_select(all.isfinite());
  result.tokens = norms.numel();
  if (result.tokens == 0) return result;
  const Spread spread = spread_of(norms);
  result.mean = spread.mean;
  result.deviation = spread.deviation;
  result.median = norms.median().item<double>();
  result.largest = norms.max().item<double>();
  const auto share = [&](double limit) {
    return (norms > limit).to(torch::kDouble).mean().item<double>();
  };
  result.beyond_deviations = share(result.mean + 4 * result.deviation);
  result.beyond_medians = share(3 * result.median);
  if (result.largest > 0) {
    const auto counts = torch::histc(norms, kNormBins, 0, result.largest);
    for (int64_t bin = 0; bin < kNormBins; ++bin) {
      result.histogram.push_back(counts[bin].item<int64_t>());
    }
  }
  return result;
}

HeadCorrelations head_correlations(const Tensor& w, const Tensor& pi) {
  const int64_t batch = w.size(0), tokens = w.size(1), heads = pi.size(1);
  const int64_t width = w.size(2) / heads;
  const auto parts =
      w.to(torch::kDouble).view({batch, tokens, heads, width}).transpose(1, 2);  // [B, H, N, P]
  const auto weights = pi.to(torch::kDouble);
  const auto count = weights.sum(2).clamp_min(1e-300);
  const auto share = (weights / count.unsqueeze(2)).unsqueeze(3);
  const auto mean = (parts * share).sum(2, /*keepdim=*/true);
  const auto moments_of = [&](const Tensor& values) {
    return (values * share).transpose(2, 3).matmul(values);
  };
  HeadCorrelations result;
  result.absolute = absolute_correlation(moments_of(parts));
  result.centered = absolute_correlation(moments_of(parts - mean));
  result.off_diagonal = mean_off_diagonal(result.absolute);
  result.centered_off_diagonal = mean_off_diagonal(result.centered);
  const auto effective = count.square() / weights.square().sum(2).clamp_min(1e-300);
  result.chance = (2 / (std::numbers::pi * effective.clamp_min(1e-300))).sqrt().clamp_max(1);
  return result;
}

}  // namespace tost
