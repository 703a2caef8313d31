#include "tost/train/config_form.h"

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/engine/run_layout.h"
#include "tost/io/parse_json.h"

namespace tost {

using nlohmann::json;

namespace {

FieldInfo shorthand_field(const std::string& key, const std::string& help, const json& usual) {
  FieldInfo field{.key = key,
                  .type = FieldType::kText,
                  .help = help,
                  .on_resume = OnResume::kFixed,
                  .choices = {}};
  if (usual.is_boolean()) field.type = FieldType::kBool;
  if (usual.is_number_integer()) field.type = FieldType::kInteger;
  if (usual.is_number_float()) field.type = FieldType::kNumber;
  field.low = -(field.high = double(int64_t{1} << 40));
  return field;
}

}  // namespace

std::vector<FieldInfo> shorthand_fields(
    const std::vector<std::pair<const char*, const char*>>& help, const json& usual) {
  std::vector<FieldInfo> fields;
  for (const auto& [key, text] : help) fields.push_back(shorthand_field(key, text, usual.at(key)));
  return fields;
}

json expand_shorthands(const std::vector<FieldInfo>& shorthands, json values) {
  for (const FieldInfo& field : shorthands) {
    const auto input = values.find(field.key);
    if (input == values.end()) continue;
    check_value(field, *input);
    json& options = values["model_options"];  // an object, or null if it was not there
    if (!options.is_null() && !options.is_object()) {
      fail_usage("model_options is ", json_text(options), " but must be an object.");
    }
    if (options.contains(field.key) && options[field.key] != *input) {
      fail_usage(field.key, " is given as ", json_text(*input), " and in model_options as ",
                 json_text(options[field.key]), "; leave one out.");
    }
    options[field.key] = *input;
    values.erase(field.key);
  }
  return values;
}

void fail_unknown_recipe(const std::string& name, const std::vector<std::string>& known) {
  fail_usage("Unknown recipe '", name, "' (known: ", join(known, ", "), ").",
             did_you_mean(name, known));
}

void check_resumed(const std::vector<FieldInfo>& fields, const json& before, const json& after,
                   std::vector<std::string>& messages) {
  for (const FieldInfo& field : fields) {
    const std::string from = json_text(before.at(field.key)), to = json_text(after.at(field.key));
    if (from == to || field.on_resume == OnResume::kFree) continue;
    if (field.on_resume == OnResume::kFixed) {
      fail_usage("The run was started with ", field.key, " ", from, " and cannot be resumed with ",
                 to, "; leave it out, or start a new run.");
    }
    messages.push_back(cat("Resuming with ", field.key, " ", to, " where the run was started with ",
                           from, ": the result will differ from an uninterrupted run."));
  }
}

json scored_data(json input, const std::filesystem::path& model_file,
                 std::vector<std::string> keys) {
  const auto config = run_config_file(model_file);
  if (!config) return input;
  const json saved = read_config_file(*config);
  const json data = saved.value("data", json());
  if (data.is_string() && same_path(data, input.at("data"))) {
    keys.insert(keys.end(), {"data_format", "holdout"});
  }
  for (const std::string& key : keys) {
    if (saved.contains(key) && !input.contains(key)) input[key] = saved[key];
  }
  return input;
}

json read_config_file(const std::filesystem::path& path) {
  json values = parse_json(read_file(path, int64_t{1} << 20), cat("'", path.string(), "'"),
                           {.unique_keys = true, .error = ErrorKind::kUsage});
  if (!values.is_object())
    fail_usage("'", path.string(), "' is not a JSON object; a config file is one.");
  return values;
}

}  // namespace tost
