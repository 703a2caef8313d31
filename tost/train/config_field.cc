#include "tost/train/config_field.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// By the order of FieldType.
struct TypeFacts {
  const char *name, *in_help;
  bool (json::*holds)() const noexcept;
};
constexpr std::array kTypes{TypeFacts{"true or false", "", &json::is_boolean},
                            TypeFacts{"an integer", "INT", &json::is_number_integer},
                            TypeFacts{"a number", "FLOAT", &json::is_number},
                            TypeFacts{"a text", "TEXT", &json::is_string},
                            TypeFacts{"a text", "TEXT", &json::is_string},
                            TypeFacts{"an object", "JSON", &json::is_object}};

const TypeFacts& facts_of(FieldType type) {
  return kTypes.at(size_t(type));
}

std::string show_limit(const FieldInfo& field, double limit) {
  const bool whole = field.type == FieldType::kInteger && std::abs(limit) < 0x1p62;
  return json_text(whole ? json(static_cast<int64_t>(limit)) : json(limit));
}

// Formats a number as JSON, or as text if it is not finite, which JSON shows as null.
std::string show_number(const json& value) {
  const double number = value.get<double>();
  return std::isfinite(number) ? json_text(value) : cat(number);
}

// Compares unsigned values above int64 as doubles, because get<int64_t>() would make them negative.
void check_range(const FieldInfo& field, const json& value) {
  const double number = value.get<double>();
  if (std::isfinite(number) && number >= field.low && number <= field.high) return;
  fail_usage(field.key, " is ", show_number(value), " but must lie between ",
             show_limit(field, field.low), " and ", show_limit(field, field.high), ".");
}

void check_choice(const FieldInfo& field, const std::string& value) {
  if (std::find(field.choices.begin(), field.choices.end(), value) != field.choices.end()) return;
  fail_usage("Unknown ", field.key, " '", value, "' (known: ", join(field.choices, ", "), ").",
             did_you_mean(value, field.choices));
}

template <class T>
T number_from_text(const FieldInfo& field, const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail_usage(field.key, " is '", text, "' but must be ", facts_of(field.type).name, ".");
  }
  return value;
}

// Whether the path is a prefix of file names, and thus names a set of files.
bool files_begin_with(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const std::string begin = path.filename().string();
  if (begin.empty() || !is_folder(folder)) return false;
  return std::ranges::any_of(folder_entries(folder), [&](const FolderEntry& entry) {
    return entry.path.filename().string().starts_with(begin);
  });
}

}  // namespace

std::string type_in_help(FieldType type) {
  return facts_of(type).in_help;
}

std::string absolute_setting(const std::string& path) {
  if (path.empty()) return path;
  const fs::path whole = absolute_path(path);
  fs::path plain = whole.lexically_normal();
  if (plain.filename().empty()) plain = plain.parent_path();
  // Compares resolved paths, because ".." after a link may lead to an unexpected folder.
  const bool same = !path_exists(whole) || canonical_path(whole) == canonical_path(plain);
  return same ? plain.string() : whole.string();
}

std::string absolute_where_found(const std::string& path) {
  return path_exists(path) || files_begin_with(path) ? absolute_setting(path) : path;
}

bool same_path(const std::string& a, const std::string& b) {
  return a == b || absolute_where_found(a) == absolute_where_found(b);
}

void check_value(const FieldInfo& field, const json& value) {
  if (!(value.*facts_of(field.type).holds)()) {
    fail_usage(field.key, " is ", json_text(value), " but must be ", facts_of(field.type).name,
               ".");
  }
  if (field.type == FieldType::kInteger || field.type == FieldType::kNumber)
    check_range(field, value);
  if (field.type == FieldType::kText) {
    require_utf8(value.get_ref<const std::string&>(), cat(field.key, ":"));
  }
  if (field.type == FieldType::kChoice) check_choice(field, value.get<std::string>());
}

json value_from_text(const FieldInfo& field, const std::string& text) {
  json value = text;
  if (field.type == FieldType::kInteger) value = number_from_text<int64_t>(field, text);
  if (field.type == FieldType::kNumber) value = number_from_text<double>(field, text);
  if (field.type == FieldType::kBool && (text == "true" || text == "false")) value = text == "true";
  if (field.type == FieldType::kObject)
    value = parse_json(text, field.key, {.unique_keys = true, .error = ErrorKind::kUsage});
  check_value(field, value);
  return value;
}

json merge(json under, const json& over) {
  if (!under.is_object() || !over.is_object()) return over;
  for (const auto& [key, value] : over.items()) {
    under[key] = under.contains(key) ? merge(under[key], value) : value;
  }
  return under;
}

void fail_unknown_key(const std::string& key, const std::vector<std::string>& known,
                      std::string_view where) {
  fail_usage("Unknown key '", key, "' in ", where, ".", did_you_mean(key, known));
}

}  // namespace tost
