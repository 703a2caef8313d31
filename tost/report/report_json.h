// The numbers of a report as text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tost {

// How every report.json begins; by it a folder is known to hold a report.
inline constexpr std::string_view kReportMarker = "{\n  \"tost_report\": 1";

// The marker and the members of `numbers`, which must be an object or null (usage Error). Arrays of
// numbers stand in one line, numbers that are not finite are null, bytes that are not UTF-8 U+FFFD.
std::string report_json(const nlohmann::json& numbers);

}  // namespace tost
