// The folder of a report; its numbers as JSON; and the choice of its layers and heads, counted
// from 1.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tost/base/function_ref.h"
#include "tost/torch.h"

namespace tost {

// The beginning of every report.json; marks its folder as a report.
inline constexpr std::string_view kReportMarker = "{\n  \"tost_report\": 1";

// The text of report.json: the marker and the members of the object `numbers`. Arrays of numbers
// are on one line; numbers that are not finite become null, and invalid UTF-8 becomes U+FFFD.
std::string report_text(const nlohmann::json& numbers);

// The page web/explain.html with the numbers of a report inserted.
std::string report_page(const nlohmann::json& numbers);

// Throws the usage Errors of write_report() for the folder, before the report is computed. Returns
// whether there is an earlier report to replace.
bool check_report_target(const std::filesystem::path& folder, bool overwrite);

// Writes index.html and report.json into a new folder and renames it to `folder`, so that a failure
// does not change an old report. Throws a usage Error for an existing folder that is not empty,
// unless it is a report and `overwrite` is set.
void write_report(const std::filesystem::path& folder, const nlohmann::json& numbers,
                  bool overwrite);

// The number as JSON, or null if it is not finite.
nlohmann::json number_or_null(double value);

// Nested arrays with a tensor's shape, of written(number); null for an undefined tensor.
nlohmann::json nested(const torch::Tensor& tensor, function_ref<double(double)> written);
// Nested arrays with numbers rounded to `decimals` digits.
nlohmann::json rounded(const torch::Tensor& tensor, int decimals);

// Returns `wanted` in rising order without repetitions; 1 ... count if `wanted` is empty. Throws a
// usage Error naming the first number outside 1 ... count; `what` is "layer" or "head".
std::vector<int64_t> choose_numbers(const std::vector<int64_t>& wanted, int64_t count,
                                    const std::string& what);

// At most `most` evenly spaced numbers of 1 ... count, with the first and the last; only the last
// if `most` is 1.
std::vector<int64_t> spread_numbers(int64_t count, int64_t most);

}  // namespace tost
