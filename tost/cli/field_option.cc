#include "tost/cli/field_option.h"

#include <algorithm>

#include "tost/base/text.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

using nlohmann::json;

std::string flag_names(const FieldInfo& field) {
  const std::string flag = flag_of(field.key);
  return field.type == FieldType::kBool ? flag + ",!--no-" + flag.substr(2) : flag;
}

}  // namespace

std::string flag_of(const std::string& key) {
  std::string name = key;
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

CLI::Option* add_field_option(CLI::App& command, const FieldInfo& field, json& values) {
  CLI::Option* option = nullptr;
  if (field.type == FieldType::kBool) {
    option = command.add_flag_function(
        flag_names(field), [&values, key = field.key](int64_t on) { values[key] = on > 0; });
  } else {
    option = command.add_option_function<std::string>(
        flag_names(field), [&values, field](const std::string& text) {
          values[field.key] = value_from_text(field, text);
        });
    option->type_name("");  // so that only the field checks the text
  }
  describe_field(*option, field, "");
  return option->take_last();
}

void join_choices(FieldInfo& field, const FieldInfo& other) {
  auto& choices = field.choices;
  for (const std::string& choice : other.choices) {
    if (std::find(choices.begin(), choices.end(), choice) == choices.end())
      choices.push_back(choice);
  }
}

void describe_field(CLI::Option& option, const FieldInfo& field, const std::string& usual) {
  // Omits the names of models, because `tost info --models` lists them.
  const bool listed = !field.choices.empty() && (field.key != "model" || field.choices.size() <= 8);
  option.description(field.help + (listed ? " (" + join(field.choices, ", ") + ")" : ""));
  if (field.type == FieldType::kBool) return;
  option.option_text(type_in_help(field.type) + (usual.empty() ? "" : "=" + usual));
}

// Quotes a text with control characters, so that a line break is shown as "\n".
std::string show_setting(const json& value) {
  if (value.is_null() || value == "" || value == json::object()) return "";
  if (!value.is_string()) return json_text(value);
  const auto& text = value.get_ref<const std::string&>();
  const bool shows =
      std::none_of(text.begin(), text.end(), [](char c) { return c >= 0 && c < ' '; });
  return shows ? text : json_text(value);
}

}  // namespace tost
