// The folder of a report; its numbers as JSON; and the choice of its layers and heads, counted
// from 1.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tost/base/function_ref.h"
#include "tost/io/parse_json.h"
#include "tost/torch.h"

namespace tost {

// What is asked of a report.
struct ReportOptions {
  bool stopped() const { return stop != nullptr && stop->load(); }
  void note(int64_t done, int64_t total, const std::string& what) const {
    if (progress) progress(done, total, what);
  }

  std::vector<int64_t> layers, heads;  // from 1; empty: first, middle and last; all
  int64_t samples = 256;               // pictures or windows of each split
  bool bound = false;                  // the variational bound too
  std::function<void(int64_t done, int64_t total, const std::string& what)> progress;
  const std::atomic<bool>* stop = nullptr;
};

// With the data of its statistics.
template <class Data>
struct DataReportOptions : ReportOptions {
  std::shared_ptr<const Data> train, held;  // either may be missing
  std::string held_split;                   // its name: "validation", "test"
  std::string data;                         // name of the data in the report
  std::string no_data;  // why there is none and how to get it; "" where there is
};

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
