// Writes a report as files: its numbers, and a page that shows them without network requests.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

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

}  // namespace tost
