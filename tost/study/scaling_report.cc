// Summary of `tost bench scaling`: fits, crossovers, tables and JSON.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <set>
#include <sstream>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/io/parse_json.h"
#include "tost/study/scaling_bench.h"

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
  return TOST_MEMBERS(*fit, exponent, factor, points);
}

json points_json(const ScalingResult& result) {
  json list = json::array();
  for (const auto& p : result.points) {
    list.push_back(TOST_MEMBERS(p, mixer, mode, tokens, batch, ms));
    list.back()["ms_per_sequence"] = p.ms / double(p.batch);
    list.back()["bytes"] = p.bytes > 0 ? json(p.bytes) : json(nullptr);
  }
  return list;
}

json memberships_json(const ScalingResult& result) {
  json list = json::array();
  for (const auto& m : result.memberships) {
    list.push_back(TOST_MEMBERS(m, tokens, temp, entropy, least_share, largest_share, finite,
                                pi_error, y_error));
  }
  return list;
}

json comparisons_json(const ScalingSummary& summary) {
  json list = json::array();
  for (const auto& comparison : summary.comparisons) {
    json ratios = json::object();
    for (const auto& [tokens, ratio] : comparison.ratios) ratios[std::to_string(tokens)] = ratio;
    list.push_back(
        {{"mode", comparison.mode},
         {"crossover", comparison.crossover ? json(comparison.crossover->tokens) : json(nullptr)},
         {"crossover_measured", comparison.crossover.has_value() && comparison.crossover->measured},
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
  ScalingSummary summary{.fit_from = from, .fit_to = to, .fits = {}, .comparisons = {}};
  for (const auto& mode : options.modes) {
    for (const auto& mixer : options.mixers) {
      summary.fits.push_back({mixer, mode,
                              fit_power(sequence_seconds(result, mixer, mode), from, to),
                              fit_power(sequence_bytes(result, mixer, mode), from, to)});
    }
    const auto tssa = sequence_seconds(result, "tssa", mode);
    const auto softmax = sequence_seconds(result, "softmax", mode);
    if (tssa.empty() || softmax.empty()) continue;
    ScalingComparison comparison{
        .mode = mode, .crossover = find_crossover(tssa, softmax), .ratios = {}};
    for (const int64_t tokens : {1024, 4096, 16'384}) {
      const auto ratio = cost_ratio(tssa, softmax, tokens);
      if (ratio.has_value()) comparison.ratios.emplace_back(tokens, *ratio);
    }
    summary.comparisons.push_back(std::move(comparison));
  }
  return summary;
}

json scaling_json(const ScalingOptions& options, const ScalingResult& result,
                  const ScalingSummary& summary) {
  json stops = json::array(), fits = json::array();
  for (const auto& s : result.stops) {
    stops.push_back(TOST_MEMBERS(s, mixer, mode, tokens, reason));
  }
  for (const auto& f : summary.fits) {
    fits.push_back({{"mixer", f.mixer},
                    {"mode", f.mode},
                    {"seconds", fit_json(f.time)},
                    {"bytes", fit_json(f.memory)}});
  }
  json object = TOST_MEMBERS(options, causal, dim, heads, dtype, repeat);
  object.update(TOST_MEMBERS(summary, fit_from, fit_to));
  object.update({{"network", options.network.empty() ? json(nullptr) : json(options.network)},
                 {"interrupted", result.interrupted},
                 {"points", points_json(result)},
                 {"stopped", stops},
                 {"fits", fits},
                 {"tssa_against_softmax", comparisons_json(summary)},
                 {"memberships", memberships_json(result)}});
  return object;
}

namespace {

// Milliseconds with three significant digits.
std::string short_ms(double ms) {
  return format_text(ms < 1 ? "%.3f" : ms < 10 ? "%.2f" : ms < 100 ? "%.1f" : "%.0f", ms);
}

// A line of the tables for a terminal.
void row(std::ostream& out, const std::string& first, const std::vector<std::string>& cells) {
  out << std::setw(12) << first;
  for (const auto& cell : cells) out << std::setw(13) << cell;
  out << "\n";
}

using Costs = std::vector<CostPoint> (*)(const ScalingResult&, const std::string&,
                                         const std::string&);

// A row a length; "-" where a mixer was not measured.
template <typename Format>
void by_length(std::ostream& out, const ScalingOptions& options, const ScalingResult& result,
               const std::string& mode, Costs of, const Format& format) {
  std::set<int64_t> lengths;
  for (const auto& p : result.points) {
    if (p.mode == mode) lengths.insert(p.tokens);
  }
  row(out, "tokens", options.mixers);
  for (const int64_t tokens : lengths) {
    std::vector<std::string> cells;
    for (const auto& mixer : options.mixers) {
      const auto points = of(result, mixer, mode);
      const auto at = std::ranges::find(points, tokens, &CostPoint::tokens);
      cells.push_back(at == points.end() ? "-" : format(at->cost));
    }
    row(out, human_number(tokens), cells);
  }
}

void exponents(std::ostream& out, const ScalingOptions& options, const ScalingSummary& summary,
               const std::string& mode) {
  out << "exponents from " << human_number(summary.fit_from) << " to "
      << human_number(summary.fit_to) << " tokens, " << mode << "\n";
  row(out, "", options.mixers);
  for (const bool memory : {false, true}) {
    std::vector<std::string> cells;
    for (const auto& fits : summary.fits) {
      const auto& fit = memory ? fits.memory : fits.time;
      if (fits.mode == mode) cells.push_back(fit ? format_text("%.3f", fit->exponent) : "-");
    }
    row(out, memory ? "memory" : "time", cells);
  }
}

void comparison_lines(std::ostream& out, const ScalingSummary& summary) {
  for (const auto& comparison : summary.comparisons) {
    out << "tssa against softmax, " << comparison.mode << ": ";
    if (!comparison.crossover.has_value()) {
      out << "not faster at the longest common length";
    } else if (comparison.crossover->measured) {
      out << "faster from about " << human_number(std::llround(comparison.crossover->tokens))
          << " tokens on";
    } else {
      out << "faster at every length from "
          << human_number(std::llround(comparison.crossover->tokens)) << " tokens on";
    }
    for (const auto& [tokens, ratio] : comparison.ratios) {
      out << "; " << std::fixed << std::setprecision(1) << ratio << "x at " << human_number(tokens);
    }
    out << "\n";
  }
}

void membership_table(std::ostream& out, const ScalingResult& result) {
  if (result.memberships.empty()) return;
  out << "membership of tssa: entropy over log H, share of the least and the most used head times"
         " H,\nlargest deviation from float64 of membership and (relative) output\n";
  row(out, "tokens", {"temp", "entropy", "least", "most", "pi", "y", "finite"});
  for (const auto& m : result.memberships) {
    row(out, human_number(m.tokens),
        {format_text("%.1f", m.temp), format_text("%.5f", m.entropy),
         format_text("%.5f", m.least_share), format_text("%.5f", m.largest_share),
         format_text("%.1e", m.pi_error), format_text("%.1e", m.y_error), m.finite ? "yes" : "NO"});
  }
}

}  // namespace

std::string scaling_table(const ScalingOptions& options, const ScalingResult& result,
                          const ScalingSummary& summary) {
  std::ostringstream out;
  for (const auto& mode : options.modes) {
    out << "milliseconds a sequence, " << mode << "\n";
    by_length(out, options, result, mode, sequence_seconds,
              [](double seconds) { return short_ms(seconds * 1e3); });
    out << "\nmemory of the call a sequence, " << mode << "\n";
    by_length(out, options, result, mode, sequence_bytes,
              [](double bytes) { return human_bytes(std::llround(bytes)); });
    out << "\n";
    exponents(out, options, summary, mode);
    out << "\n";
  }
  comparison_lines(out, summary);
  out << "\n";
  membership_table(out, result);
  return out.str();
}

}  // namespace tost
