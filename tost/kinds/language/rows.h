// Data sets of rows: JSON Lines files, one object a line.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tost {

struct JsonRow {
  nlohmann::json object;
  std::string where;  // "'FILE' line N", for messages
};

// `path` itself, or the only .jsonl file of a folder. Throws a data Error where there is none.
std::filesystem::path find_rows_file(const std::filesystem::path& path);

// All rows; blank lines are skipped. Throws a data Error naming file and line for what is no
// JSON object, and for a file without rows.
std::vector<JsonRow> read_rows(const std::filesystem::path& file);

// The row's string under this key; a data Error where there is none.
std::string string_of(const JsonRow& row, const std::string& key);

}  // namespace tost
