// What the tables of measurements share: where they were made, and rows as CSV, JSON and text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tost {

// Where and of what a row was measured; stands in every row of CSV and JSON.
struct BenchOrigin {
  std::string cpu, features, isa;  // features separated by blanks
  std::string version, commit, build, compiler, torch;
  std::string date;  // UTC, 2025-01-31T12:00:00Z
};

using BenchRowJson = nlohmann::ordered_json;  // flat; its order is that of the columns of CSV

void add_origin(BenchRowJson& row, const BenchOrigin& origin);
// A line for the foot of a table.
std::string origin_line(const BenchOrigin& origin);

// Null for what was not measured: not above 0, or not finite.
BenchRowJson measured(double value);

// A line with the names of `columns`, and one a row.
std::string csv_table(const BenchRowJson& columns, const std::vector<BenchRowJson>& rows);

std::string number(const char* format, double value);
// Three digits that count, without an exponent.
std::string three_digits(double value);
// "12 %"; "–" where there is no part.
std::string share(double part, double whole);

}  // namespace tost
