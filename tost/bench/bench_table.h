// Shared by tables of measurements: the machine, and rows as JSON and text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tost {

// The machine and subject of a row; part of every row in JSON.
struct BenchOrigin {
  std::string cpu, features, isa;  // features separated by blanks
  std::string version, commit, build, compiler, torch;
  std::string date;  // UTC, 2025-01-31T12:00:00Z
};

using BenchRowJson = nlohmann::ordered_json;  // flat

void add_origin(BenchRowJson& row, const BenchOrigin& origin);
// A line for the foot of a table.
std::string origin_line(const BenchOrigin& origin);

// Null for values that were not measured: not above 0, or not finite.
BenchRowJson measured(double value);

// {"rows": [...]} with json_of(row) for each row, a flat object that may also hold lists.
template <class Row, class ToJson>
nlohmann::json json_table(const std::vector<Row>& rows, const ToJson& json_of) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) list.push_back(nlohmann::json(json_of(row)));
  return {{"rows", std::move(list)}};
}

// "| a | b |" and a line end.
std::string markdown_line(const std::vector<std::string>& cells);

// Three significant digits, without an exponent.
std::string three_digits(double value);
// "12 %"; "–" where there is no part.
std::string share(double part, double whole);

}  // namespace tost
