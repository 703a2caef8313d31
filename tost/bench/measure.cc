#include "tost/bench/measure.h"

#include <cmath>

#include "tost/base/text.h"
#include "tost/ops/device.h"

namespace tost {

Quartiles quartiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double part) {
    const double place = part * double(values.size() - 1);
    const auto below = size_t(place);
    const size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (place - double(below)) * (values[above] - values[below]);
  };
  return {at(0.25), at(0.5), at(0.75)};
}

MsClock ms_clock(c10::Device device) {
  return [device, start = Clock::now()] {
    synchronize(device);
    return ms_since(start);
  };
}

std::vector<std::vector<double>> time_rounds(int64_t warmup, int64_t repeat,
                                             const std::vector<Candidate>& candidates,
                                             const MsClock& now) {
  std::vector<std::vector<double>> times(candidates.size());
  for (int64_t round = -warmup; round < repeat; ++round) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      candidates[i].prepare();
      const double start = now();
      candidates[i].run();
      const double end = now();
      if (round >= 0) times[i].push_back(end - start);
    }
  }
  return times;
}

void add_origin(BenchRowJson& row, const BenchOrigin& o) {
  row.update(BenchRowJson{{"cpu", o.cpu},
                          {"features", o.features},
                          {"isa", o.isa},
                          {"version", o.version},
                          {"commit", o.commit},
                          {"build", o.build},
                          {"compiler", o.compiler},
                          {"torch", o.torch},
                          {"date", o.date}});
}

std::string origin_line(const BenchOrigin& o) {
  return cat(o.cpu, " (", o.features, "); kernels ", o.isa, "; tost ", o.version, " ", o.commit,
             ", ", o.build, ", ", o.compiler, ", torch ", o.torch, "; ", o.date, "\n");
}

BenchRowJson measured(double value) {
  return value > 0 && std::isfinite(value) ? BenchRowJson(value) : BenchRowJson();
}

std::string markdown_line(const std::vector<std::string>& cells) {
  return cat("| ", join(cells, " | "), " |\n");
}

std::string three_digits(double value) {
  return format_text(value < 10 ? "%.2f" : value < 100 ? "%.1f" : "%.0f", value);
}

std::string share(double part, double whole) {
  return part > 0 ? format_text("%.0f %%", 100 * part / whole) : "–";
}

}  // namespace tost
