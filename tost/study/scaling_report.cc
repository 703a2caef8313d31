// Results of `tost bench scaling` as text and JSON; `python -m tost.figures` fits exponents.
#include <cmath>
#include <iomanip>
#include <set>
#include <sstream>

#include "tost/base/text.h"
#include "tost/bench/bench_table.h"
#include "tost/io/parse_json.h"
#include "tost/study/scaling_bench.h"

namespace tost {
namespace {

using nlohmann::json;

json points_json(const ScalingResult& result) {
  json list = json::array();
  for (const auto& p : result.points) {
    list.push_back(TOST_MEMBERS(p, mixer, mode, tokens, batch, ms));
    list.back()["ms_per_sequence"] = p.ms / double(p.batch);
    list.back()["bytes"] = p.bytes > 0 ? json(p.bytes) : json(nullptr);
  }
  return list;
}

// Milliseconds with three significant digits.
std::string short_ms(double ms) {
  return ms < 1 ? format_text("%.3f", ms) : three_digits(ms);
}

// Writes a line of a table for a terminal.
void row(std::ostream& out, const std::string& first, const std::vector<std::string>& cells) {
  out << std::setw(12) << first;
  for (const auto& cell : cells) out << std::setw(13) << cell;
  out << "\n";
}

// Writes a row for each length. `format` formats a point; "-" is a mixer that was not measured.
template <typename Format>
void by_length(std::ostream& out, const ScalingOptions& options, const ScalingResult& result,
               const std::string& mode, const Format& format) {
  std::set<int64_t> lengths;
  for (const auto& p : result.points) {
    if (p.mode == mode) lengths.insert(p.tokens);
  }
  row(out, "tokens", options.mixers);
  for (const int64_t tokens : lengths) {
    std::vector<std::string> cells(options.mixers.size(), "-");
    for (const auto& p : result.points) {
      const auto mixer = std::ranges::find(options.mixers, p.mixer) - options.mixers.begin();
      if (p.mode == mode && p.tokens == tokens) cells[size_t(mixer)] = format(p);
    }
    row(out, human_number(tokens), cells);
  }
  out << "\n";
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

std::string scaling_table(const ScalingOptions& options, const ScalingResult& result) {
  std::ostringstream out;
  for (const auto& mode : options.modes) {
    out << "milliseconds a sequence, " << mode << "\n";
    by_length(out, options, result, mode,
              [](const ScalingPoint& p) { return short_ms(p.ms / double(p.batch)); });
    out << "memory of the call a sequence, " << mode << "\n";
    by_length(out, options, result, mode, [](const ScalingPoint& p) {
      return p.bytes > 0 ? human_bytes(std::llround(double(p.bytes) / double(p.batch))) : "-";
    });
  }
  membership_table(out, result);
  return out.str();
}

json scaling_json(const ScalingOptions& options, const ScalingResult& result) {
  json stops = json::array(), memberships = json::array();
  for (const auto& s : result.stops) {
    stops.push_back(TOST_MEMBERS(s, mixer, mode, tokens, reason));
  }
  for (const auto& m : result.memberships) {
    memberships.push_back(TOST_MEMBERS(m, tokens, temp, entropy, least_share, largest_share, finite,
                                       pi_error, y_error));
  }
  json object = TOST_MEMBERS(options, causal, dim, heads, dtype, repeat);
  object.update({{"network", options.network.empty() ? json(nullptr) : json(options.network)},
                 {"interrupted", result.interrupted},
                 {"points", points_json(result)},
                 {"stopped", stops},
                 {"memberships", memberships}});
  return object;
}

}  // namespace tost
