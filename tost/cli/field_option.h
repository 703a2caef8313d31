// A setting of a configuration's table as a flag.
#pragma once

#include <CLI/CLI.hpp>
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

// What help says of the field: how its value is written, then "=" and `usual` if it is not empty,
// and its help with the names that are possible, unless those are many models.
void describe_field(CLI::Option& option, const FieldInfo& field, const std::string& usual);

// A setting's value as help shows it; empty for nothing, an empty text and an empty object.
std::string show_setting(const nlohmann::json& value);

}  // namespace tost
