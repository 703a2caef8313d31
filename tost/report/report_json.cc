#include "tost/report/report_json.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

using nlohmann::json;

std::string in_one_line(const json& value) {
  return json_text(value);
}

bool stays_in_line(const json& value) {
  if (!value.is_structured() || value.empty()) return true;
  return value.is_array() && std::none_of(value.begin(), value.end(),
                                          [](const json& item) { return item.is_structured(); });
}

void append(std::string& out, const json& value, size_t depth) {
  if (stays_in_line(value)) {
    out += in_one_line(value);
    return;
  }
  const std::string indent(2 * depth + 2, ' ');
  out += value.is_object() ? '{' : '[';
  bool first = true;
  for (auto item = value.begin(); item != value.end(); ++item) {
    out += first ? "\n" : ",\n";
    first = false;
    out += indent;
    if (value.is_object()) out += in_one_line(json(item.key())) + ": ";
    append(out, *item, depth + 1);
  }
  out += '\n' + std::string(2 * depth, ' ');
  out += value.is_object() ? '}' : ']';
}

}  // namespace

std::string report_json(const json& numbers) {
  if (!numbers.is_object() && !numbers.is_null()) {
    fail_usage("The numbers of a report must be a JSON object.");
  }
  std::string out(kReportMarker);
  for (const auto& [key, value] : numbers.items()) {
    if (key == "tost_report") continue;
    out += ",\n  " + in_one_line(json(key)) + ": ";
    append(out, value, 1);
  }
  return out + "\n}\n";
}

}  // namespace tost
