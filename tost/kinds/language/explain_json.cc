// The JSON of a report on a language model.
#include <algorithm>
#include <cmath>

#include "tost/explain/report.h"
#include "tost/kinds/language/explain_report.h"
#include "tost/kinds/language/explain_trace.h"

namespace tost {
namespace {

using nlohmann::json;
using torch::Tensor;

constexpr int kDigits = 6;
constexpr int kMembershipDigits = 9;  // heads may be close to each other

constexpr auto number = number_or_null;

json spread(const Spread& s) {
  return {{"mean", number(s.mean)}, {"std", number(s.deviation)}, {"count", s.count}};
}

Tensor of_passage(const Tensor& batch) {
  return batch.defined() ? batch[0] : Tensor();
}

json token_means(const std::vector<TokenMean>& rows, const TextReport& report, const char* what) {
  json list = json::array();
  for (const TokenMean& row : rows) {
    list.push_back({{"id", row.id},
                    {"token", visible_token(report.info.tokenizer.get(), row.id)},
                    {"count", row.count},
                    {what, number(row.mean)},
                    {"lift", number(row.against)}});
  }
  return list;
}

json passage_json(const TextReport& report) {
  const auto& loss = report.trace.loss;
  json guesses = json::array();
  for (int64_t t = 0; t < loss.size(1); ++t) {
    const auto id = report.trace.guess[0][t].item<int64_t>();
    guesses.push_back({{"id", id}, {"token", visible_token(report.info.tokenizer.get(), id)}});
  }
  const double mean = loss.numel() > 0 ? loss.mean().item<double>() : std::nan("");
  return {{"source", report.passage.source},
          {"notes", report.passage.notes},
          {"ids", report.passage.ids},
          {"tokens", report.passage.tokens},
          {"loss", number(mean)},
          {"perplexity", number(std::exp(mean))},
          {"share_predicted",
           number(loss.numel() > 0 ? report.trace.likely.to(torch::kDouble).mean().item<double>()
                                   : std::nan(""))},
          {"token_loss", rounded(of_passage(loss), kDigits)},
          {"likeliest_instead", guesses}};
}

json layer_json(const TextReport& report, size_t i) {
  const TextLayer& layer = report.trace.layers[i];
  json object = {{"layer", i + 1},
                 {"mixer", layer.mixer},
                 {"uniform_membership", layer.uniform},
                 {"descends_on_bound", layer.descends},
                 {"membership", rounded(of_passage(layer.pi), kMembershipDigits)},
                 {"entropy", rounded(of_passage(layer.entropy), kDigits)},
                 {"gate", rounded(of_passage(layer.gate), kDigits)},
                 {"own_effect", rounded(of_passage(layer.effect), kDigits)},
                 {"norm", rounded(of_passage(layer.norm), 4)},
                 {"group_means", json()},
                 {"memory_horizon", rounded(report.horizon[i], 3)},
                 {"influence_by_distance", json()},
                 {"influence_of_tokens", json()}};
  if (layer.mean_norm.defined()) {
    object["group_means"] = {{"norm", rounded(of_passage(layer.mean_norm), 4)},
                             {"cosine", rounded(of_passage(layer.mean_cosine), 4)}};
  }
  if (i < report.influence.size()) {
    const Tensor& influence = report.influence[i];
    object["influence_by_distance"] = rounded(influence_by_distance(influence), kDigits);
    const int64_t reach = influence_reach(influence.size(0));
    object["influence_reach"] = reach;
    object["influence_of_tokens"] = rounded(influence_of_tokens(influence, reach), kDigits);
  }
  const auto& spectra = report.spectra[i];
  if (!spectra) return object;
  object["subspaces"] = {{"singular_values", rounded(spectra->singular_values, kDigits)},
                         {"overlap", rounded(spectra->overlap, kDigits)},
                         {"mean_overlap", number(spectra->mean_overlap)},
                         {"chance_overlap", number(spectra->chance_overlap)},
                         {"sum_singular_values", rounded(spectra->sum_values, kDigits)},
                         {"rank", spectra->rank},
                         {"effective_rank", number(spectra->effective_rank)},
                         {"basis_effective_rank", number(spectra->basis_effective_rank)},
                         {"energy_rank_99", spectra->energy_rank}};
  return object;
}

// The correlation matrices of a layer for the chosen heads.
json matrices_json(const LayerStatistics& layer, const TextReport& report) {
  json matrices = json::array();
  for (const int64_t head : report.heads) {
    matrices.push_back(
        {{"head", head}, {"absolute", rounded(layer.correlations[head - 1], kDigits)}});
  }
  return matrices;
}

json rates_json(const TextReport& report, const LayerStatistics& layer, size_t i) {
  json object = {{"norms",
                  {{"mean", number(layer.norms.mean)},
                   {"std", number(layer.norms.deviation)},
                   {"median", number(layer.norms.median)},
                   {"max", number(layer.norms.largest)},
                   {"share_beyond_3_medians", number(layer.norms.beyond_medians)}}}};
  if (!layer.has_memberships) return object;
  object["compression"] = {{"input", spread(layer.rate_input)},
                           {"output_before_residual", spread(layer.rate_output)},
                           {"after_residual", spread(layer.rate_after)}};
  object["correlation"] = {{"mean_off_diagonal", number(layer.off_diagonal_mean)},
                           {"by_head", rounded(layer.off_diagonal, kDigits)},
                           {"by_chance", number(layer.off_diagonal_chance)},
                           {"diagonal_share", spread(layer.diagonal_share)},
                           {"diagonal_share_unit_heads", spread(layer.diagonal_share_unit)}};
  const auto number_of = int64_t(i) + 1;
  if (std::find(report.layers.begin(), report.layers.end(), number_of) != report.layers.end()) {
    object["correlation"]["matrices"] = matrices_json(layer, report);
  }
  for (const RateGap& gap : layer.gaps) {
    object["bound"].push_back({{"scale", gap.scale},
                               {"bound", spread(gap.bound)},
                               {"exact_in_heads", spread(gap.exact_heads)},
                               {"gap", spread(gap.gap)}});
  }
  if (layer.gaps.empty() || !report.trace.layers[i].descends) return object;
  object["objective"] = {{"before", spread(layer.objective.before)},
                         {"stepped", spread(layer.objective.stepped)},
                         {"unscaled", spread(layer.objective.unscaled)},
                         {"share_lowered", number(layer.objective.lowered)},
                         {"share_lowered_unscaled", number(layer.objective.lowered_unscaled)}};
  return object;
}

json split_json(const ExplainedText& split, const TextReport& report) {
  const TextStatistics& s = split.statistics;
  json layers = json::array();
  for (size_t i = 0; i < s.layers.size(); ++i) {
    const TextLayerStatistics& layer = s.layers[i];
    json object = rates_json(report, s.rates[i], i);
    object["layer"] = i + 1;
    object["own_effect_mean"] = number(layer.effect_mean);
    object["strongest_tokens"] = token_means(layer.strongest, report, "own_effect");
    object["gate"] = rounded(layer.gate, kDigits);
    if (layer.has_memberships) {
      object["mean_membership"] = rounded(layer.share, kDigits);
      object["entropy_mean"] = number(layer.entropy_mean);
      object["entropy_by_position"] = {{"mean", rounded(layer.entropy, kDigits)},
                                       {"std", rounded(layer.entropy_spread, kDigits)}};
      for (const auto& head : layer.taken) {
        object["taken"].push_back(token_means(head, report, "membership"));
      }
    }
    layers.push_back(std::move(object));
  }
  return {{"split", split.split},
          {"windows", s.windows},
          {"window_tokens", s.length},
          {"least_occurrences", s.least},
          {"loss", {{"mean", number(s.loss)}, {"std", number(s.loss_spread)}}},
          {"layers", layers}};
}

}  // namespace

json to_json(const TextReport& report) {
  json layers = json::array(), splits = json::array();
  for (size_t i = 0; i < report.trace.layers.size(); ++i) layers.push_back(layer_json(report, i));
  for (const auto& split : report.splits) splits.push_back(split_json(split, report));
  const auto& config = report.info.config;
  const auto& tokenizer = report.info.tokenizer;
  return {{"kind", "language"},
          {"model", report.info.config.name},
          {"config", to_json(config)},
          {"tokenizer", tokenizer == nullptr ? json()
                                             : json{{"kind", tokenizer->kind()},
                                                    {"vocab", tokenizer->vocab_size()}}},
          {"chosen_layers", report.layers},
          {"chosen_heads", report.heads},
          {"compression_ceiling", number(compression_ceiling(config.dim / config.heads))},
          {"checkpoint", report.checkpoint},
          {"parameters", report.parameters},
          {"data", report.data.empty() ? json() : json(report.data)},
          {"passage", passage_json(report)},
          {"layers", layers},
          {"splits", splits},
          {"left_out", report.left_out}};
}

}  // namespace tost
