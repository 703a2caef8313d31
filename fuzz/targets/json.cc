// JSON from outside: its limits, the settings of a run, the metadata and configuration of a model.
#include <map>

#include "fuzz/targets.h"
#include "tost/engine/config_json.h"
#include "tost/engine/metadata.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"
#include "tost/train/config_form.h"

namespace tost::fuzz {
namespace {

using nlohmann::json;

// A field of each type.
struct Settings {
  std::string recipe = "usual";
  bool decay_all = false;
  int64_t steps = 10;
  double rate = 0.5;
  std::string data, schedule = "step";
  json model_options = json::object();
};

ConfigForm<Settings> settings_form() {
  ConfigForm<Settings> form;
  form.fields.choice("recipe", &Settings::recipe, {"usual", "other"}, OnResume::kFree, "")
      .flag("decay_all", &Settings::decay_all, OnResume::kFixed, "")
      .integer("steps", &Settings::steps, 1, 1000, OnResume::kWarn, "")
      .number("rate", &Settings::rate, 0, 1, OnResume::kWarn, "")
      .text("data", &Settings::data, OnResume::kFree, "")
      .choice("schedule", &Settings::schedule, {"step", "epoch"}, OnResume::kFixed, "")
      .object("model_options", &Settings::model_options, OnResume::kFixed, "");
  form.recipes = {{"usual", json::object()}, {"other", json::object()}};
  form.check = [](const Settings&) {};
  return form;
}

void try_settings(std::string_view input) {
  static const ConfigForm<Settings> form = settings_form();
  const json values = parse_json(input, "fuzz", {.unique_keys = true});
  if (!values.is_object()) return;
  const Settings settings = make_config(form, values);
  require(settings.steps >= 1 && settings.steps <= 1000, "a number within its range");
  std::vector<std::string> messages;
  resume_config(form, Settings(), values, messages);
}

struct Model {
  std::string mixer = "tssa";
  int64_t depth = 2;
  double scale = 1;
  bool bias = false;
};

// As the configurations of all models are read.
void try_model(std::string_view input) {
  const auto fields = [](auto& model, const auto& visit) {
    visit("mixer", model.mixer, false);
    visit("depth", model.depth, false);
    visit("scale", model.scale, true);
    visit("bias", model.bias, true);
  };
  const json given = parse_json(input, "fuzz");
  Model model;
  config_from_json(given, fields, /*partial=*/given.size() < 2, model);
  check_field_range("depth", model.depth, 1, 100);
  check_field_choice("mixer", model.mixer, {"tssa", "softmax"});
  Model again;
  config_from_json(config_to_json(model, fields), fields, /*partial=*/false, again);
  require(again.mixer == model.mixer && again.depth == model.depth, "described and read the same");
}

}  // namespace

void try_json(std::string_view input) {
  const unsigned choice = take_choice(input);
  require(is_utf8(escaped(input, input.size() * 4)), "escaped text is UTF-8");
  if (choice % 5 == 1) return or_refuse([&] { try_settings(input); });
  if (choice % 5 == 2) {
    const std::map<std::string, std::string> metadata{{kConfigKey, std::string(input)}};
    return or_refuse([&] {
      expect_keys(metadata_json(metadata, kConfigKey, "fuzz"), {"a", "model", "classes"}, "fuzz");
    });
  }
  if (choice % 5 == 4) return or_refuse([&] { try_model(input); });
  or_refuse([&] {
    const JsonLimits limits{.nesting = choice % 5 == 3 ? 3u : 64u};
    const json value = parse_json(input, "fuzz", limits);
    const json copy = value;
    require(parse_json(copy.dump(), "fuzz", limits) == value, "written and read again the same");
    parse_ordered_json(input, "fuzz", limits);
  });
}

}  // namespace tost::fuzz
