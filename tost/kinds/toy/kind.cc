// A kind of run that fits a sine.
#include "tost/kinds/kind.h"

#include "tost/base/error.h"
#include "tost/train/toy_task.h"

namespace tost {
namespace {

using enum OnResume;

struct ToyConfig : LoopConfig {
  std::string recipe, from, model = "tost_toy";
};

struct ToyInfo {};

class ToyRun : public testing::ToyTask {
 public:
  ToyRun(const ToyConfig& config, const std::optional<ToyInfo>&, bool)
      : ToyTask(uint64_t(config.seed)) {}
};

std::vector<Recipe<ToyConfig>> toy_recipes() {
  return {{"toy", [] {
             ToyConfig config;
             config.recipe = "toy";
             return config;
           }}};
}

const ConfigForm<ToyConfig>& toy_form() {
  static const ConfigForm<ToyConfig> form = [] {
    FieldTable<ToyConfig> fields;
    fields.choice("recipe", &ToyConfig::recipe, names_of(toy_recipes()), kFree, "named defaults")
        .choice("model", &ToyConfig::model, {"tost_toy"}, kFixed, "model preset")
        .include(loop_fields());
    return ConfigForm<ToyConfig>{fields, toy_recipes(),
                                 [](const ToyConfig& config) { check_loop_config(config); }};
  }();
  return form;
}

}  // namespace

Kind toy_kind() {
  Kind kind;
  kind.name = kind.label = "toy";
  kind.runs = {make_run_kind<ToyRun>(
      "toy", "toy model", toy_form(), {"tost_toy"},
      +[](const nlohmann::json&, const std::string&) { return ToyInfo{}; })};
  kind.runs[0].metric = "loss";
  kind.table = {.key = "toy_models",
                .title = "toy model",
                .columns = {},
                .note = "",
                .describe = [](const std::string& name) {
                  return nlohmann::json{{"name", name}, {"parameters", 97}};
                }};
  return kind;
}

}  // namespace tost
