// Settings of a configuration's table as flags, and the help of `tost train`, which has more
// settings than a reader wants at once.
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

// The flag writes into `values`, which outlives the command; only the field checks its text.
CLI::Option* add_field_option(CLI::App& command, const FieldInfo& field, nlohmann::json& values);

// Adds the choices of `other` that `field` lacks.
void join_choices(FieldInfo& field, const FieldInfo& other);

// The help of the field: the form of its value, then "=" and `usual` if it is not empty, and its
// text with the possible names, unless those are many models.
void describe_field(CLI::Option& option, const FieldInfo& field, const std::string& usual);

// A setting's value as help shows it; empty for nothing, an empty text and an empty object.
std::string show_setting(const nlohmann::json& value);

// Where help shows a setting; less is further up.
struct TrainPlace {
  size_t heading = 0;
  size_t place = 0;
  auto operator<=>(const TrainPlace&) const = default;
};
TrainPlace train_place(const std::string& key);

// --help then shows the usual settings of the kind of run that the other flags select, with the
// values of its recipe. --help-all shows all settings of that kind, or of every kind where none is
// selected. `options`: the flag of every setting, by its key. `examples` are printed below.
void set_train_help(CLI::App& command, std::map<std::string, CLI::Option*> options,
                    std::string examples);

}  // namespace tost
