// Times and their statistics, and helpers for tables of measurements.
#pragma once

#include <c10/core/Device.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tost {

using Clock = std::chrono::steady_clock;

inline double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The median of `values`; the upper median if the number of values is even.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The median and both quartiles, by linear interpolation between sorted values.
struct Quartiles {
  double low = 0, median = 0, high = 0;
};
Quartiles quartiles(std::vector<double> values);  // not empty

// A clock in milliseconds that first waits for all work queued on the device.
using MsClock = std::function<double()>;
MsClock ms_clock(c10::Device device = c10::kCPU);

struct Candidate {
  std::function<void()> run;
  std::function<void()> prepare = [] {};  // before each run, outside its time
};

// Milliseconds of each candidate's `repeat` runs. The candidates alternate: each runs once a round,
// and the first `warmup` rounds are not counted.
std::vector<std::vector<double>> time_rounds(int64_t warmup, int64_t repeat,
                                             const std::vector<Candidate>& candidates,
                                             const MsClock& now = ms_clock());

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
