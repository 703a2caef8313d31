// A table of fields for each configuration struct. The table defines the JSON form, the flags,
// their help, and the check of a resumed run's configuration.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tost {

enum class FieldType { kBool, kInteger, kNumber, kText, kChoice, kObject };

// A type in --help: INT, FLOAT, TEXT or JSON; empty for a flag.
std::string type_in_help(FieldType type);

// The effect of a change of a value on a resumed run.
enum class OnResume {
  kFixed,  // refused: saved state and data order would not fit
  kWarn,   // allowed and reported: the result differs from an uninterrupted run
  kFree,   // does not change the result
};

struct FieldInfo {
  std::string key;  // the JSON key; the flag is the same with dashes: weight_decay, --weight-decay
  FieldType type;
  std::string help;
  OnResume on_resume;
  double low = 0, high = 0;               // kInteger, kNumber: inclusive range
  std::vector<std::string> choices = {};  // kChoice
};

// Sets the field; throws a usage Error naming the key, the value and the allowed values.
void check_value(const FieldInfo& field, const nlohmann::json& value);

// Converts a flag's text to the field's JSON value. Throws a usage Error for a bad value.
nlohmann::json value_from_text(const FieldInfo& field, const std::string& text);

// Replaces values of `under` (a config file) by those of `over` (flags); merges objects key by key.
nlohmann::json merge(nlohmann::json under, const nlohmann::json& over);

// Whether earlier builds of 0.1.0 wrote this key, which has no meaning now.
inline bool is_retired_key(std::string_view key) {
  return key == "graphs" || key == "side" || key == "contour_length" || key == "fast_decode";
}

[[noreturn]] void fail_unknown_key(const std::string& key, const std::vector<std::string>& known,
                                   std::string_view where);

// Converts a path to the form in configurations: absolute and in one spelling.
std::string absolute_setting(const std::string& path);
// Returns absolute_setting() of a path that exists, and of a prefix of existing paths. Returns
// other texts unchanged, because they may not be paths.
std::string absolute_where_found(const std::string& path);
// Whether two stored paths name the same data.
bool same_path(const std::string& a, const std::string& b);

template <class Config>
class FieldTable {
 public:
  FieldTable& flag(std::string key, bool Config::*member, OnResume on_resume, std::string help) {
    return add({std::move(key), FieldType::kBool, std::move(help), on_resume}, member);
  }
  FieldTable& integer(std::string key, int64_t Config::*member, int64_t low, int64_t high,
                      OnResume on_resume, std::string help) {
    return add({std::move(key), FieldType::kInteger, std::move(help), on_resume, double(low),
                double(high)},
               member);
  }
  FieldTable& number(std::string key, double Config::*member, double low, double high,
                     OnResume on_resume, std::string help) {
    return add({std::move(key), FieldType::kNumber, std::move(help), on_resume, low, high}, member);
  }
  // `keep` converts the text, such as a path, to the stored form.
  FieldTable& text(std::string key, std::string Config::*member, OnResume on_resume,
                   std::string help, std::string (*keep)(const std::string&) = nullptr) {
    add({std::move(key), FieldType::kText, std::move(help), on_resume}, member);
    if (keep == nullptr) return *this;
    set_.back() = [=](auto& c, const nlohmann::json& v) { c.*member = keep(v.get<std::string>()); };
    return *this;
  }
  // A setting that is a text, or a type that JSON stores by name.
  template <class T, class Owner>
  FieldTable& choice(std::string key, T Owner::*member, std::vector<std::string> choices,
                     OnResume on_resume, std::string help) {
    return add(
        {std::move(key), FieldType::kChoice, std::move(help), on_resume, 0, 0, std::move(choices)},
        member);
  }
  FieldTable& object(std::string key, nlohmann::json Config::*member, OnResume on_resume,
                     std::string help) {
    return add({std::move(key), FieldType::kObject, std::move(help), on_resume}, member);
  }
  // Adds all fields from the table of a base struct.
  template <class Base>
  FieldTable& include(const FieldTable<Base>& base) {
    for (size_t i = 0; i < base.fields().size(); ++i) {
      fields_.push_back(base.fields()[i]);
      get_.push_back(base.getter(i));
      set_.push_back(base.setter(i));
    }
    return *this;
  }

  const std::vector<FieldInfo>& fields() const { return fields_; }
  const auto& getter(size_t i) const { return get_[i]; }
  const auto& setter(size_t i) const { return set_[i]; }

  nlohmann::json to_json(const Config& config) const {
    nlohmann::json object = nlohmann::json::object();
    for (size_t i = 0; i < fields_.size(); ++i) object[fields_[i].key] = get_[i](config);
    return object;
  }

  // Sets the fields that `object` contains. `where` names the source in errors ("config.json").
  // Throws a usage Error for an unknown key (with the nearest one), a wrong type or a value out of
  // range.
  void apply(Config& config, const nlohmann::json& object, std::string_view where) const {
    for (const auto& [key, value] : object.items()) {
      if (is_retired_key(key)) continue;
      const size_t i = index_of(key, where);
      check_value(fields_[i], value);
      set_[i](config, value);
    }
  }

  const FieldInfo& field(const std::string& key) const { return fields_[index_of(key, "flags")]; }

 private:
  template <class T, class Owner>
  FieldTable& add(FieldInfo info, T Owner::*member) {
    fields_.push_back(std::move(info));
    get_.push_back([member](const Config& c) { return nlohmann::json(c.*member); });
    set_.push_back(
        [member](Config& c, const nlohmann::json& value) { c.*member = value.get<T>(); });
    return *this;
  }

  size_t index_of(const std::string& key, std::string_view where) const {
    std::vector<std::string> known;
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (fields_[i].key == key) return i;
      known.push_back(fields_[i].key);
    }
    fail_unknown_key(key, known, where);
  }

  std::vector<FieldInfo> fields_;
  std::vector<std::function<nlohmann::json(const Config&)>> get_;
  std::vector<std::function<void(Config&, const nlohmann::json&)>> set_;
};

}  // namespace tost
