#include "tost/study/scaling_report.h"

#include <cmath>

#include "tost/base/error.h"
#include "tost/base/text.h"

namespace tost {
namespace {

using nlohmann::json;

template <typename Cost>
std::vector<CostPoint> costs(const ScalingResult& result, const std::string& mixer,
                             const std::string& mode, const Cost& cost) {
  std::vector<CostPoint> points;
  for (const auto& p : result.points) {
    const double value = cost(p) / double(p.batch);
    if (p.mixer == mixer && p.mode == mode && value > 0) points.push_back({p.tokens, value});
  }
  return points;
}

json fit_json(const std::optional<PowerFit>& fit) {
  if (!fit.has_value()) return nullptr;
  return {{"exponent", fit->exponent}, {"factor", fit->factor}, {"points", fit->points}};
}

json points_json(const ScalingResult& result) {
  json list = json::array();
  for (const auto& p : result.points) {
    list.push_back({{"mixer", p.mixer},
                    {"mode", p.mode},
                    {"tokens", p.tokens},
                    {"batch", p.batch},
                    {"ms", p.ms},
                    {"ms_per_sequence", p.ms / double(p.batch)},
                    {"bytes", p.bytes > 0 ? json(p.bytes) : json(nullptr)}});
  }
  return list;
}

json memberships_json(const ScalingResult& result) {
  json list = json::array();
  for (const auto& m : result.memberships) {
    list.push_back({{"tokens", m.tokens},
                    {"temp", m.temp},
                    {"entropy", m.entropy},
                    {"least_share", m.least_share},
                    {"largest_share", m.largest_share},
                    {"finite", m.finite},
                    {"pi_error", m.pi_error},
                    {"y_error", m.y_error}});
  }
  return list;
}

json duels_json(const ScalingSummary& summary) {
  json list = json::array();
  for (const auto& duel : summary.duels) {
    json ratios = json::object();
    for (const auto& [tokens, ratio] : duel.ratios) ratios[std::to_string(tokens)] = ratio;
    list.push_back({{"mode", duel.mode},
                    {"crossover", duel.crossover ? json(duel.crossover->tokens) : json(nullptr)},
                    {"crossover_measured", duel.crossover.has_value() && duel.crossover->measured},
                    {"times_as_fast", ratios}});
  }
  return list;
}

}  // namespace

std::vector<CostPoint> sequence_seconds(const ScalingResult& result, const std::string& mixer,
                                        const std::string& mode) {
  return costs(result, mixer, mode, [](const ScalingPoint& p) { return p.ms / 1e3; });
}

std::vector<CostPoint> sequence_bytes(const ScalingResult& result, const std::string& mixer,
                                      const std::string& mode) {
  return costs(result, mixer, mode, [](const ScalingPoint& p) { return double(p.bytes); });
}

ScalingSummary summarize_scaling(const ScalingOptions& options, const ScalingResult& result,
                                 int64_t from, int64_t to) {
  ScalingSummary summary{.fit_from = from, .fit_to = to, .fits = {}, .duels = {}};
  for (const auto& mode : options.modes) {
    for (const auto& mixer : options.mixers) {
      summary.fits.push_back({mixer, mode,
                              fit_power(sequence_seconds(result, mixer, mode), from, to),
                              fit_power(sequence_bytes(result, mixer, mode), from, to)});
    }
    const auto tssa = sequence_seconds(result, "tssa", mode);
    const auto softmax = sequence_seconds(result, "softmax", mode);
    if (tssa.empty() || softmax.empty()) continue;
    ScalingDuel duel{.mode = mode, .crossover = find_crossover(tssa, softmax), .ratios = {}};
    for (const int64_t tokens : {1024, 4096, 16'384}) {
      const auto ratio = cost_ratio(tssa, softmax, tokens);
      if (ratio.has_value()) duel.ratios.emplace_back(tokens, *ratio);
    }
    summary.duels.push_back(std::move(duel));
  }
  return summary;
}

std::string scaling_csv(const ScalingResult& result) {
  std::string text =
      "mixer,mode,tokens,batch,ms_per_call,ms_per_sequence,bytes_per_call,bytes_per_sequence\n";
  for (const auto& p : result.points) {
    text += cat(p.mixer, ",", p.mode, ",", p.tokens, ",", p.batch, ",", p.ms, ",",
                p.ms / double(p.batch), ",");
    if (p.bytes > 0)
      text += cat(p.bytes, ",", p.bytes / p.batch);
    else
      text += ",";
    text += "\n";
  }
  return text;
}

json scaling_json(const ScalingOptions& options, const ScalingResult& result,
                  const ScalingSummary& summary) {
  json stops = json::array(), fits = json::array();
  for (const auto& s : result.stops) {
    stops.push_back(
        {{"mixer", s.mixer}, {"mode", s.mode}, {"tokens", s.tokens}, {"reason", s.reason}});
  }
  for (const auto& f : summary.fits) {
    fits.push_back({{"mixer", f.mixer},
                    {"mode", f.mode},
                    {"seconds", fit_json(f.time)},
                    {"bytes", fit_json(f.memory)}});
  }
  return {{"causal", options.causal},
          {"network", options.network.empty() ? json(nullptr) : json(options.network)},
          {"dim", options.dim},
          {"heads", options.heads},
          {"dtype", options.dtype},
          {"repeat", options.repeat},
          {"interrupted", result.interrupted},
          {"points", points_json(result)},
          {"stopped", stops},
          {"fit_from", summary.fit_from},
          {"fit_to", summary.fit_to},
          {"fits", fits},
          {"tssa_against_softmax", duels_json(summary)},
          {"memberships", memberships_json(result)}};
}

}  // namespace tost
