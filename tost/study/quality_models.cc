#include "tost/study/quality_models.h"

#include <cmath>

#include "tost/base/error.h"
#include "tost/kinds/language/model.h"
#include "tost/kinds/language/recall_train_config.h"
#include "tost/kinds/language/train_config.h"
#include "tost/kinds/sequence/classifier.h"
#include "tost/kinds/sequence/train_config.h"
#include "tost/nn/state_dict.h"

namespace tost {
namespace {

using nlohmann::json;

bool has_recall_recipe(const json& settings) {
  for (const std::string& task : recall_tasks()) {
    if (settings.value("recipe", "") == task) return true;
  }
  return false;
}

LanguageConfig language_of(const json& settings) {
  if (!has_recall_recipe(settings)) {
    return language_config(make_config(language_train_form(), settings));
  }
  const RecallTrainConfig config = make_config(recall_train_form(), settings);
  return recall_model_config(config, *open_recall(recall_spec(config, 0)));
}

SequenceConfig sequence_of(const json& settings) {
  return sequence_config(make_config(sequence_train_form(), settings));
}

}  // namespace

int64_t parameters_of_settings(const json& settings, bool causal) {
  if (!causal) return parameter_count(*make_sequence_classifier(sequence_of(settings)));
  return parameter_count(*make_language_model(language_of(settings), WeightInit::kNone));
}

int64_t state_bytes_of_settings(const json& settings) {
  LanguageConfig config = language_of(settings);
  const int64_t tokens = config.block;
  const auto model = make_language_model(config);
  model->eval();
  LanguageState state;
  model->extend(torch::zeros({1, tokens}, torch::kLong), state);
  return state_bytes(state);
}

json with_parameters(json settings, bool causal, int64_t wanted) {
  const double dim = double(causal ? language_of(settings).dim : sequence_of(settings).dim);
  const auto set = [&](int64_t hidden) {
    json& options = settings["model_options"];
    if (causal) {
      options["mlp_ratio"] = double(hidden) / dim;
    } else {
      options["mlp_hidden"] = hidden;
    }
    return parameters_of_settings(settings, causal);
  };
  // Parameters are linear in the width.
  const int64_t one = set(1), each = set(2) - one;
  const double hidden = 1 + double(wanted - one) / double(each);
  if (hidden < 1) {
    fail_usage("A model cannot be made as small as ", wanted,
               " parameters by its MLPs alone: they "
               "are ",
               one, " with the narrowest ones. Choose a smaller width.");
  }
  set(std::llround(hidden));
  return settings;
}

}  // namespace tost
