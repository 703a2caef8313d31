#include "tost/kinds/language/recall_train_config.h"

#include <algorithm>

#include "tost/data/recall_data.h"
#include "tost/kinds/language/model.h"
#include "tost/kinds/language/train_config.h"

namespace tost {
namespace {

using nlohmann::json;
using enum OnResume;
using R = RecallTrainConfig;

void add_task_fields(FieldTable<R>& t) {
  t.choice("task", &R::task, recall_tasks(), kFixed, "what is to be recalled")
      .text("lengths", &R::lengths, kFixed,
            "tokens of a sample, such as 64,128; batches take turns")
      .text("pairs", &R::pairs, kFixed,
            "keys with a value (mqar) or symbols (selective-copying), such as 4,8: one a length")
      .integer("vocab", &R::vocab, 3, int64_t{1} << 24, kFixed,
               "tokens of the task (not of needle, parity and s3)")
      .number("power", &R::power, 1e-9, 16, kFixed,
              "queries of mqar: weight k^(power - 1) of the k-th place after the pairs")
      .flag("random_filler", &R::random_filler, kFixed,
            "random tokens between the queries of mqar, not zeros")
      .integer("distractors", &R::distractors, 0, 1000, kFixed, "needles with other keys")
      .integer("questions", &R::questions, 1, 1000, kFixed,
               "needles that are asked for, distractors among them")
      .path("haystack", &R::haystack, absolute_where_found, kWarn,
            "text file around the needles (empty: a grammar)")
      .integer("gap", &R::gap, 0, int64_t{1} << 24, kFixed, "blanks before a copy")
      .number("noise", &R::noise, 0, 0.99, kFixed,
              "share of pairs that are noise (noisy-in-context-recall)");
}

FieldTable<R> make_recall_fields() {
  FieldTable<R> t;
  t.choice("recipe", &R::recipe, recall_tasks(), kFree, "named set of defaults")
      .choice("model", &R::model, recall_preset_names(), kFixed, "model preset")
      .path("from", &R::from, absolute_setting, kFixed,
            "model file to fine-tune (its architecture replaces the preset)")
      .text("mixer", &R::mixer, kFixed, "token mixer (empty: the preset's)", causal_mixer_in_use)
      .object("model_options", &R::model_options, kFixed, "further model fields, as in model.json")
      .integer("batch", &R::batch, 1, 65536, kFixed, "samples a batch")
      .integer("eval_samples", &R::eval_samples, 1, 1'000'000, kWarn,
               "samples of every length an evaluation takes, the same every time");
  add_task_fields(t);
  return t.include(loop_fields()).include(step_fields());
}

R mqar_recipe() {
  R c;
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

R needle_recipe() {
  R c = mqar_recipe();
  c.recipe = c.task = "needle";
  c.model = "tost_recall_stream";
  c.lengths = "128,256,512,1k";
  c.batch = 16;
  return c;
}

R copying_recipe() {
  R c = mqar_recipe();
  c.recipe = c.task = "copying";
  c.vocab = 64;
  return c;
}

R state_recipe(const char* task) {
  R c = mqar_recipe();
  c.recipe = c.task = task;
  c.model = "tost_recall_stream";
  c.lengths = "8,16,32,64";
  return c;
}

R parity_recipe() {
  return state_recipe("parity");
}

R s3_recipe() {
  return state_recipe("s3");
}

// The baseline settings of MAD (its repository's configs/tasks), on our small model.
R mad_recipe(const char* task, const char* length, int64_t vocab) {
  R c = mqar_recipe();
  c.recipe = c.task = task;
  c.model = "tost_recall_stream";
  c.lengths = length;
  c.vocab = vocab;
  c.pairs = "16";
  return c;
}

void check_recall(const R& config) {
  check_loop_config(config);
  recall_cases(config);
}

}  // namespace

const ConfigForm<R>& recall_train_form() {
  static const ConfigForm<R> form{
      make_recall_fields(),
      {{"mqar", mqar_recipe},
       {"needle", needle_recipe},
       {"copying", copying_recipe},
       {"parity", parity_recipe},
       {"s3", s3_recipe},
       {"in-context-recall", [] { return mad_recipe("in-context-recall", "128", 16); }},
       {"noisy-in-context-recall", [] { return mad_recipe("noisy-in-context-recall", "128", 32); }},
       {"fuzzy-in-context-recall", [] { return mad_recipe("fuzzy-in-context-recall", "128", 16); }},
       {"selective-copying", [] { return mad_recipe("selective-copying", "256", 16); }},
       {"memorization", [] { return mad_recipe("memorization", "32", 256); }},
       {"compression", [] { return mad_recipe("compression", "32", 16); }}},
      check_recall,
      language_train_form().shorthands};
  return form;
}

RecallSpec recall_spec(const R& config, uint64_t seed) {
  return {.task = config.task,
          .seed = seed,
          .vocab = config.vocab,
          .power = config.power,
          .random_filler = config.random_filler,
          .distractors = config.distractors,
          .questions = config.questions,
          .text = config.haystack,
          .gap = config.gap,
          .noise = config.noise};
}

std::vector<RecallCase> recall_cases(const R& config) {
  return parse_recall_cases(config.lengths, config.pairs);
}

LanguageConfig changed_recall_config(const R& config, LanguageConfig base) {
  return changed_language_config(config.mixer, config.model_options, std::move(base));
}

LanguageConfig recall_model_config(const R& config, const RecallSource& source) {
  LanguageConfig base = language_preset(config.model);
  base.vocab = source.vocab();
  base.auto_encoder = source.restores();
  base.block = 1;
  for (const RecallCase& size : recall_cases(config)) {
    base.block = std::max(base.block, size.length);
  }
  return changed_recall_config(config, base);
}

}  // namespace tost
