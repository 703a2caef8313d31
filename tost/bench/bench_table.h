// Helpers for tables of measurements: a description of the machine, and rows as JSON and text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tost {

// The machine and the subject of a measurement, which every row in JSON contains.
struct BenchOrigin {
  std::string cpu, features, isa;  // features separated by blanks
  std::string version, commit, build, compiler, torch;
  std::string date;  // UTC, 2025-01-31T12:00:00Z
};

using BenchRowJson = nlohmann::ordered_json;  // flat

void add_origin(BenchRowJson& row, const BenchOrigin& origin);
// The line below a table, with the machine, the build and the date of the measurement.
std::string origin_line(const BenchOrigin& origin);

// Returns the value as JSON, or null if the value is not finite and positive, which means not
// measured.
BenchRowJson measured(double value);

// Returns {"rows": [...]} with the object json_of(row) for each row.
template <class Row, class ToJson>
nlohmann::json json_table(const std::vector<Row>& rows, const ToJson& json_of) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) list.push_back(nlohmann::json(json_of(row)));
  return {{"rows", std::move(list)}};
}

// Formats cells as the line "| a | b |" of a Markdown table.
std::string markdown_line(const std::vector<std::string>& cells);

// Formats a number with three significant digits and without an exponent.
std::string three_digits(double value);
// Formats a share as "12 %", or as "–" if `part` was not measured.
std::string share(double part, double whole);

}  // namespace tost
