// A report as files: the numbers, and one page that shows them without network requests.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tost {

// How every report.json begins; by it a folder is known to hold a report.
inline constexpr std::string_view kReportMarker = "{\n  \"tost_report\": 1";

// The marker and the members of `numbers`, an object. Arrays of numbers are written in one line,
// numbers that are not finite are null, bytes that are not UTF-8 U+FFFD.
std::string report_text(const nlohmann::json& numbers);

// The page of web/explain.html with the numbers in it.
std::string report_page(const nlohmann::json& numbers);

// Refuses a folder that write_report() would refuse, by the same usage Errors: to know it before
// the report is computed. Whether there is an earlier report to replace.
bool check_report_target(const std::filesystem::path& folder, bool overwrite);

// Writes `folder`/index.html and report.json; a new report is written to a folder next to it and
// renamed into place, so that a failure does not change the old one. An existing folder is a usage
// Error unless it holds nothing, or `overwrite` is set and it is an earlier report.
void write_report(const std::filesystem::path& folder, const nlohmann::json& numbers,
                  bool overwrite);

}  // namespace tost
