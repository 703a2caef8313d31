#include "tost/bench/bench_table.h"

#include <cmath>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

std::string csv_cell(const BenchRowJson& value) {
  if (value.is_null()) return "";
  return csv_field(value.is_string() ? value.get<std::string>() : json_text(value));
}

}  // namespace

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

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_head(const BenchRowJson& columns) {
  std::vector<std::string> names;
  for (const auto& item : columns.items()) names.push_back(item.key());
  return join(names, ",") + "\n";
}

std::string csv_line(const BenchRowJson& row) {
  std::vector<std::string> cells;
  for (const auto& item : row.items()) cells.push_back(csv_cell(item.value()));
  return join(cells, ",") + "\n";
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
