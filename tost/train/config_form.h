// The settings of a kind of run, and how JSON becomes its configuration: first the recipe, then the
// config file, then flags.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tost/train/config_field.h"

namespace tost {

// A set of settings that differ from Config's defaults; the configuration's `recipe` is its name.
template <class Config>
struct Recipe {
  std::string name;
  nlohmann::json values;
};

template <class Config>
struct ConfigForm {
  FieldTable<Config> fields;            // "recipe" among them
  std::vector<Recipe<Config>> recipes;  // the first is the default
  void (*check)(const Config&);         // rules between values; throws a usage Error
  // Keys that are shorthands for the same keys of the object "model_options".
  std::vector<FieldInfo> shorthands = {};
};

template <class Config>
std::vector<std::string> names_of(const std::vector<Recipe<Config>>& recipes) {
  std::vector<std::string> names;
  for (const auto& recipe : recipes) names.push_back(recipe.name);
  return names;
}

// Makes shorthands of keys of model_options, each with its help. `usual` has a value of each, which
// gives its type; the model checks the value.
std::vector<FieldInfo> shorthand_fields(
    const std::vector<std::pair<const char*, const char*>>& help, const nlohmann::json& usual);

// Moves every shorthand in `values` into model_options. Throws a usage Error for a wrong value, or
// if model_options has another value.
nlohmann::json expand_shorthands(const std::vector<FieldInfo>& shorthands, nlohmann::json values);

[[noreturn]] void fail_unknown_recipe(const std::string& name,
                                      const std::vector<std::string>& known);

// The values of a recipe. Throws a usage Error, with the nearest name, for an unknown name.
template <class Config>
Config make_recipe(const ConfigForm<Config>& form, const std::string& name) {
  for (const auto& recipe : form.recipes) {
    if (recipe.name != name) continue;
    Config config;
    form.fields.apply(config, recipe.values, "the recipe");
    config.recipe = name;
    return config;
  }
  fail_unknown_recipe(name, names_of(form.recipes));
}

// Makes a configuration of `values` (a config file merged with flags, see merge()): the recipe of
// the key "recipe" (default: the first), changed by all other keys. Throws as FieldTable::apply.
template <class Config>
Config make_config(const ConfigForm<Config>& form, const nlohmann::json& values,
                   std::string_view where = "the configuration") {
  std::string name = form.recipes.front().name;
  if (values.contains("recipe")) {
    check_value(form.fields.field("recipe"), values["recipe"]);
    name = values["recipe"];
  }
  Config config = make_recipe(form, name);
  form.fields.apply(config, expand_shorthands(form.shorthands, values), where);
  form.check(config);
  return config;
}

// Compares a resumed run's configuration with that of its start. Throws a usage Error naming the
// key and both values for a change that the saved state cannot follow. Other changes that affect
// the result add a sentence to `messages`.
void check_resumed(const std::vector<FieldInfo>& fields, const nlohmann::json& before,
                   const nlohmann::json& after, std::vector<std::string>& messages);

// Makes a resumed run's configuration: that of its start, changed by `values`.
template <class Config>
Config resume_config(const ConfigForm<Config>& form, const Config& saved,
                     const nlohmann::json& values, std::vector<std::string>& messages) {
  Config config = saved;
  // Objects are merged, so that options of the model need not be repeated.
  form.fields.apply(config,
                    merge(form.fields.to_json(saved), expand_shorthands(form.shorthands, values)),
                    "the configuration");
  form.check(config);
  check_resumed(form.fields.fields(), form.fields.to_json(saved), form.fields.to_json(config),
                messages);
  return config;
}

// The settings of the data that a model is scored on: `input`, completed for `keys` by the run that
// contains the model file, if any. The run's settings of how data are read and split are used only
// for the run's data.
nlohmann::json scored_data(nlohmann::json input, const std::filesystem::path& model_file,
                           std::vector<std::string> keys);

// Reads the JSON object of a config file. Throws a usage Error if it is not one.
nlohmann::json read_config_file(const std::filesystem::path& path);

}  // namespace tost
