// The JSON of a report on a language model.
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

Tensor of_passage(const Tensor& batch) {
  return batch.defined() ? batch[0] : Tensor();
}

json token_means(const std::vector<TokenMean>& rows, const TextReport& report, const char* what) {
  json list = json::array();
  for (const TokenMean& row : rows) {
    list.push_back({{"id", row.id},
                    {"token", visible_token(report.info.tokenizer.get(), row.id)},
                    {"count", row.count},
                    {what, number_or_null(row.mean)},
                    {"lift", number_or_null(row.against)}});
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
          {"loss", number_or_null(mean)},
          {"perplexity", number_or_null(std::exp(mean))},
          {"share_predicted",
           number_or_null(loss.numel() > 0
                              ? report.trace.likely.to(torch::kDouble).mean().item<double>()
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
                         {"mean_overlap", number_or_null(spectra->mean_overlap)},
                         {"chance_overlap", number_or_null(spectra->chance_overlap)},
                         {"sum_singular_values", rounded(spectra->sum_values, kDigits)},
                         {"rank", spectra->rank},
                         {"effective_rank", number_or_null(spectra->effective_rank)},
                         {"basis_effective_rank", number_or_null(spectra->basis_effective_rank)},
                         {"energy_rank_99", spectra->energy_rank}};
  return object;
}

json rates_json(const TextReport& report, const LayerStatistics& layer, size_t i) {
  if (!layer.has_memberships) return {{"norms", to_json(layer.norms)}};
  json object = to_json(layer, heads_shown(report.layers, report.heads, i), kDigits);
  if (!report.trace.layers[i].descends) object.erase("objective");
  return object;
}

json split_json(const ExplainedText& split, const TextReport& report) {
  const TextStatistics& s = split.statistics;
  json layers = json::array();
  for (size_t i = 0; i < s.layers.size(); ++i) {
    const TextLayerStatistics& layer = s.layers[i];
    json object = rates_json(report, s.rates[i], i);
    object["layer"] = i + 1;
    object["own_effect_mean"] = number_or_null(layer.effect_mean);
    object["strongest_tokens"] = token_means(layer.strongest, report, "own_effect");
    object["gate"] = rounded(layer.gate, kDigits);
    if (layer.has_memberships) {
      object["mean_membership"] = rounded(layer.share, kDigits);
      object["entropy_mean"] = number_or_null(layer.entropy_mean);
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
          {"loss", {{"mean", number_or_null(s.loss)}, {"std", number_or_null(s.loss_spread)}}},
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
          {"compression_ceiling", number_or_null(compression_ceiling(config.dim / config.heads))},
          {"checkpoint", report.checkpoint},
          {"parameters", report.parameters},
          {"data", report.data.empty() ? json() : json(report.data)},
          {"passage", passage_json(report)},
          {"layers", layers},
          {"splits", splits},
          {"left_out", report.left_out}};
}

}  // namespace tost
