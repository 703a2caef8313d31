#include "tost/kinds/language/answer_train_config.h"

#include <algorithm>

#include "tost/kinds/language/model.h"
#include "tost/kinds/language/train_config.h"

namespace tost {
namespace {

using enum OnResume;
using A = AnswerTrainConfig;

FieldTable<A> make_answer_fields() {
  FieldTable<A> t;
  t.choice("recipe", &A::recipe, {"task"}, kFree, "named set of defaults")
      .choice("model", &A::model, recall_preset_names(), kFixed, "model preset")
      .path("from", &A::from, absolute_setting, kFixed,
            "model file to fine-tune (its architecture replaces the preset)")
      .text("mixer", &A::mixer, kFixed, "token mixer (empty: the preset's)")
      .object("model_options", &A::model_options, kFixed, "further model fields, as in model.json")
      .path("data", &A::data, absolute_setting, kWarn,
            "folder of a task that python -m tost.tasks makes")
      .integer("batch", &A::batch, 1, 65536, kFixed, "samples a batch")
      .integer("eval_samples", &A::eval_samples, 1, 1'000'000, kWarn,
               "samples of every group that an evaluation takes, the same every time");
  return t.include(loop_fields()).include(step_fields());
}

A task_recipe() {
  A c;
  c.max_steps = 2000;
  c.lr = 3e-3;
  c.min_lr = 1e-4;
  c.warmup_steps = 100;
  c.weight_decay = 0.1;
  c.beta2 = 0.99;
  c.clip = 1;
  c.evaluate_every_steps = 250;
  c.checkpoint_every = 0;
  c.checkpoint_every_steps = 500;
  c.log_every = 50;
  return c;
}

void check_answers(const A& config) {
  check_loop_config(config);
}

}  // namespace

const ConfigForm<A>& answer_train_form() {
  static const ConfigForm<A> form{make_answer_fields(),
                                  {{"task", task_recipe}},
                                  check_answers,
                                  language_train_form().shorthands};
  return form;
}

LanguageConfig changed_answer_config(const A& config, LanguageConfig base) {
  return changed_language_config(config.mixer, config.model_options, std::move(base));
}

LanguageConfig answer_model_config(const A& config, const TokenTaskData& data) {
  LanguageConfig base = language_preset(config.model);
  base.vocab = data.vocabulary();
  base.auto_encoder = data.restores();
  base.block = 1;
  for (int64_t group = 0; group < data.groups(); ++group) {
    base.block = std::max(base.block, data.length(group));
  }
  return changed_answer_config(config, base);
}

}  // namespace tost
