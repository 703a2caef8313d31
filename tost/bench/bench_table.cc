#include "tost/bench/bench_table.h"

#include <cmath>

#include "tost/base/text.h"

namespace tost {
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
