// The results as text for a terminal.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <set>
#include <sstream>

#include "tost/base/text.h"
#include "tost/study/scaling_report.h"

namespace tost {
namespace {

constexpr int kFirst = 12, kColumn = 13;

// Milliseconds with three digits that matter.
std::string short_ms(double ms) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(ms < 1 ? 3 : ms < 10 ? 2 : ms < 100 ? 1 : 0) << ms;
  return out.str();
}

void head(std::ostream& out, const std::string& first, const std::vector<std::string>& names) {
  out << std::setw(kFirst) << first;
  for (const auto& name : names) out << std::setw(kColumn) << name;
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
  head(out, "tokens", options.mixers);
  for (const int64_t tokens : lengths) {
    out << std::setw(kFirst) << human_number(tokens);
    for (const auto& mixer : options.mixers) {
      const auto points = of(result, mixer, mode);
      const auto at = std::find_if(points.begin(), points.end(),
                                   [&](const CostPoint& p) { return p.tokens == tokens; });
      out << std::setw(kColumn) << (at == points.end() ? "-" : format(at->cost));
    }
    out << "\n";
  }
}

std::string exponent(const std::optional<PowerFit>& fit) {
  if (!fit.has_value()) return "-";
  std::ostringstream out;
  out << std::fixed << std::setprecision(3) << fit->exponent;
  return out.str();
}

void exponents(std::ostream& out, const ScalingOptions& options, const ScalingSummary& summary,
               const std::string& mode) {
  out << "exponents from " << human_number(summary.fit_from) << " to "
      << human_number(summary.fit_to) << " tokens, " << mode << "\n";
  head(out, "", options.mixers);
  for (const bool memory : {false, true}) {
    out << std::setw(kFirst) << (memory ? "memory" : "time");
    for (const auto& fit : summary.fits) {
      if (fit.mode == mode) out << std::setw(kColumn) << exponent(memory ? fit.memory : fit.time);
    }
    out << "\n";
  }
}

void duel_lines(std::ostream& out, const ScalingSummary& summary) {
  for (const auto& duel : summary.duels) {
    out << "tssa against softmax, " << duel.mode << ": ";
    if (!duel.crossover.has_value()) {
      out << "not faster at the longest common length";
    } else if (duel.crossover->measured) {
      out << "faster from about " << human_number(std::llround(duel.crossover->tokens))
          << " tokens on";
    } else {
      out << "faster at every length from " << human_number(std::llround(duel.crossover->tokens))
          << " tokens on";
    }
    for (const auto& [tokens, ratio] : duel.ratios) {
      out << "; " << std::fixed << std::setprecision(1) << ratio << "x at " << human_number(tokens);
    }
    out << "\n";
  }
}

void membership_table(std::ostream& out, const ScalingResult& result) {
  if (result.memberships.empty()) return;
  out << "membership of tssa: entropy over log H, share of the least and the most used head times"
         " H,\nlargest deviation from float64 of membership and (relative) output\n";
  head(out, "tokens", {"temp", "entropy", "least", "most", "pi", "y", "finite"});
  for (const auto& m : result.memberships) {
    out << std::setw(kFirst) << human_number(m.tokens) << std::fixed << std::setprecision(1)
        << std::setw(kColumn) << m.temp << std::setprecision(5) << std::setw(kColumn) << m.entropy
        << std::setw(kColumn) << m.least_share << std::setw(kColumn) << m.largest_share
        << std::scientific << std::setprecision(1) << std::setw(kColumn) << m.pi_error
        << std::setw(kColumn) << m.y_error << std::setw(kColumn) << (m.finite ? "yes" : "NO")
        << "\n";
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
  duel_lines(out, summary);
  out << "\n";
  membership_table(out, result);
  return out.str();
}

}  // namespace tost
