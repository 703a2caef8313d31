#include "tost/engine/config_json.h"

#include <cmath>

namespace tost {
namespace {

using nlohmann::json;

[[noreturn]] void fail_type(const char* key, const char* expected, const json& found) {
  fail_data("Model config: '", key, "' must be ", expected, ", found ", found.type_name(), ".");
}

}  // namespace

void assign_field(const char* key, std::string& field, const json& value) {
  if (!value.is_string()) fail_type(key, "a string", value);
  field = value.get<std::string>();
}

void assign_field(const char* key, int64_t& field, const json& value) {
  if (!value.is_number_integer()) fail_type(key, "an integer", value);
  // Refuses unsigned values beyond int64, which get<int64_t> would make negative.
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) {
    fail_data("Model config: '", key, "' is ", value.get<uint64_t>(), ", beyond any size.");
  }
  field = value.get<int64_t>();
}

void assign_field(const char* key, double& field, const json& value) {
  if (!value.is_number()) fail_type(key, "a number", value);
  field = value.get<double>();
}

void assign_field(const char* key, bool& field, const json& value) {
  if (!value.is_boolean()) fail_type(key, "true or false", value);
  field = value.get<bool>();
}

void check_field_range(const char* key, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    fail_usage("Model setting '", key, "' is ", value, "; it must be from ", low, " to ", high,
               ".");
  }
}

void check_field_finite(const char* key, double value) {
  if (!std::isfinite(value)) fail_usage("Model setting '", key, "' must be finite.");
}

void check_field_share(const char* key, double value) {
  if (value >= 0 && value < 1) return;
  fail_usage("Model setting '", key, "' is ", value, "; it must be at least 0 and below 1.");
}

void check_mlp_ratio(double ratio, int64_t dim) {
  if (ratio > 0 && ratio <= 64 && ratio * double(dim) >= 1) return;
  fail_usage("Model setting 'mlp_ratio' is ", ratio,
             "; it must be above 0, at most 64, and leave at least one hidden unit.");
}

void check_parameters(double parameters, const std::string& sizes) {
  constexpr double kMost = 2e10;
  if (parameters <= kMost) return;
  fail_usage("A model of ", sizes, " would have about ", parameters, " parameters; the limit is ",
             kMost, ".");
}

void check_field_choice(const char* key, const std::string& value,
                        const std::vector<std::string>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  fail_usage("Model setting '", key, "' is '", value, "'; it must be one of ", join(allowed, ", "),
             ".", did_you_mean(value, allowed));
}

}  // namespace tost
