#include "tost/kinds/language/rows.h"

#include <algorithm>
#include <string_view>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/io/mapped_file.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == line.npos;
}

}  // namespace

fs::path find_rows_file(const fs::path& path) {
  if (!is_folder(path)) return path;  // reading it says what is wrong
  std::vector<fs::path> found;
  for (const FolderEntry& entry : folder_entries(path)) {
    if (entry.path.extension() == ".jsonl") found.push_back(entry.path);
  }
  if (found.size() != 1) {
    fail_data("'", path.string(), "' holds ", found.size(), " .jsonl files; give the one to read.");
  }
  return found.front();
}

std::vector<JsonRow> read_rows(const fs::path& file) {
  const MappedFile map(file);
  std::vector<JsonRow> rows;
  std::string_view rest = map.bytes();
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (is_blank(line)) continue;
    const std::string where = cat("'", file.string(), "' line ", number);
    JsonRow row{parse_json(line, where), where};
    if (!row.object.is_object()) fail_data(row.where, " is not a JSON object.");
    rows.push_back(std::move(row));
  }
  if (rows.empty()) fail_data("'", file.string(), "' has no rows.");
  return rows;
}

std::string string_of(const JsonRow& row, const std::string& key) {
  const auto found = row.object.find(key);
  if (found == row.object.end() || !found->is_string()) {
    fail_data(row.where, " lacks \"", key, "\", a string.");
  }
  return found->get<std::string>();
}

}  // namespace tost
