// Makes flags from a table of settings, and the help of `tost train`, which shows the usual
// settings first.
#pragma once

#include <CLI/CLI.hpp>
#include <compare>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tost/train/config_field.h"

namespace tost {

// "--train-size" of train_size.
std::string flag_of(const std::string& key);

// Adds a flag that writes to `values`, which must outlive the command. The field checks the value.
CLI::Option* add_field_option(CLI::App& command, const FieldInfo& field, nlohmann::json& values);

// Adds to `field` the choices that only `other` has.
void join_choices(FieldInfo& field, const FieldInfo& other);

// Sets the help of the option: the form of its value, "=" and `usual` if set, the field's text, and
// possible names.
void describe_field(CLI::Option& option, const FieldInfo& field, const std::string& usual);

// The form of a setting's value in help; empty for null, an empty text or an empty object.
std::string show_setting(const nlohmann::json& value);

// The place of a setting in help; smaller numbers come first.
struct TrainPlace {
  size_t heading = 0;
  size_t place = 0;
  auto operator<=>(const TrainPlace&) const = default;
};
TrainPlace train_place(const std::string& key);

// Makes --help show the usual settings of the kind of run that the other flags select, with the
// values of the recipe. --help-all shows all settings of this kind, or of all kinds if none is
// selected. `options` maps the key of every setting to its flag; `examples` are printed at the end.
void set_train_help(CLI::App& command, std::map<std::string, CLI::Option*> options,
                    std::string examples);

}  // namespace tost
