// The settings of a kind of run. A configuration is a recipe, changed by a file and then by flags.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tost/train/config_field.h"

namespace tost {

// A recipe: a name, and settings that differ from Config's defaults.
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
  // Keys that are shorthands for the keys of the same names in the object "model_options".
  std::vector<FieldInfo> shorthands = {};
};

template <class Config>
std::vector<std::string> names_of(const std::vector<Recipe<Config>>& recipes) {
  std::vector<std::string> names;
  for (const auto& recipe : recipes) names.push_back(recipe.name);
  return names;
}

// The settings of the model, which every kind of run has. `keep_mixer` converts the mixer's name
// to the stored form.
template <class Config>
FieldTable<Config> model_fields(std::vector<std::string> recipes, std::vector<std::string> models,
                                std::string (*keep_mixer)(const std::string&) = nullptr) {
  using enum OnResume;
  FieldTable<Config> t;
  t.choice("recipe", &Config::recipe, std::move(recipes), kFree, "named set of defaults")
      .choice("model", &Config::model, std::move(models), kFixed, "model preset")
      .text("from", &Config::from, kFixed,
            "model file to fine-tune (its architecture replaces the preset)", absolute_setting)
      .text("mixer", &Config::mixer, kFixed, "token mixer (empty: the preset's)", keep_mixer)
      .object("model_options", &Config::model_options, kFixed,
              "further model fields, as in model.json");
  return t;
}

// The help text of the shorthand "mlp" of several kinds.
inline constexpr char kMlpHelp[] =
    "second half of a block: gelu, ista (CRATE's step), tied (one dictionary, twice)";

// Makes shorthands for keys of model_options, with their help texts. The values in `usual` define
// the types of shorthands; the model checks values.
std::vector<FieldInfo> shorthand_fields(
    const std::vector<std::pair<const char*, const char*>>& help, const nlohmann::json& usual);

// Moves every shorthand in `values` into model_options. Throws a usage Error for a wrong value, or
// one that contradicts model_options.
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

// Makes a configuration from `values`, a config file merged with flags. All other keys change the
// recipe that the key "recipe" names (default: the first). Throws as FieldTable::apply.
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

// Compares a resumed run's configuration with the original one. Throws a usage Error naming key and
// values for a change that does not fit the saved state. Other changes that affect the result add a
// sentence to `messages`.
void check_resumed(const std::vector<FieldInfo>& fields, const nlohmann::json& before,
                   const nlohmann::json& after, std::vector<std::string>& messages);

// Makes a resumed run's configuration: the original one, changed by `values`.
template <class Config>
Config resume_config(const ConfigForm<Config>& form, const Config& saved,
                     const nlohmann::json& values, std::vector<std::string>& messages) {
  Config config = saved;
  // Merges objects, so that options of the model need not be repeated.
  form.fields.apply(config,
                    merge(form.fields.to_json(saved), expand_shorthands(form.shorthands, values)),
                    "the configuration");
  form.check(config);
  check_resumed(form.fields.fields(), form.fields.to_json(saved), form.fields.to_json(config),
                messages);
  return config;
}

// The settings of the data on which a model is scored. Missing `keys` of `input` come from the run
// that contains the model file, if any. The run's settings for reading and splitting data apply
// only to the run's data.
nlohmann::json scored_data(nlohmann::json input, const std::filesystem::path& model_file,
                           std::vector<std::string> keys);

// Reads the JSON object of a config file. Throws a usage Error if the file holds no JSON object.
nlohmann::json read_config_file(const std::filesystem::path& path);

}  // namespace tost
