// The checks of settings, and the named recipes. `char` and `char-gpu` are nanoGPT's settings for
// characters on a CPU and on a GPU; the gpt2 recipes are those of the official configurations.
#include "tost/kinds/language/train_config.h"

#include <algorithm>

#include "tost/base/error.h"

namespace tost {
namespace {

using nlohmann::json;
using enum OnResume;
using L = LanguageTrainConfig;
using A = AnswerTrainConfig;

std::string stored_tokenizer(const std::string& name) {
  for (const std::string_view place : {"gpt2:", "file:"}) {
    if (name.starts_with(place)) return cat(place, absolute_where_found(name.substr(place.size())));
  }
  return name;
}

FieldTable<L> make_language_fields() {
  auto t =
      model_fields<L>(names_of(language_recipes()), language_preset_names(), causal_mixer_in_use);
  t.text("data", &L::data, kWarn, "text file, folder of text, or token file", absolute_where_found)
      .text("tokenizer", &L::tokenizer, kFixed,
            "auto, bytes, chars, words:N, gpt2[:FOLDER], file:JSON", stored_tokenizer)
      .number("holdout", &L::holdout, 0, 0.9, kFixed,
              "share of the text kept for validation where the data has no such split")
      .integer("batch", &L::batch, 1, 65536, kFixed, "sequences a batch")
      .integer("eval_batches", &L::eval_batches, 1, 1'000'000, kWarn,
               "batches of random crops an evaluation takes, the same every time")
      .text("sample_prompt", &L::sample_prompt, kFree, "what samples begin with")
      .integer("sample_tokens", &L::sample_tokens, 1, 1'000'000, kFree, "tokens a sample")
      .number("sample_temperature", &L::sample_temperature, 0, 100, kFree,
              "temperature of samples (0: the most likely token)");
  return t.include(loop_fields()).include(step_fields());
}

// The help texts of the fields of LanguageConfig that are also settings.
const std::vector<std::pair<const char*, const char*>>& language_shorthand_help() {
  static const std::vector<std::pair<const char*, const char*>> kHelp = {
      {"block", "context in tokens"},
      {"dim", "width"},
      {"depth", "blocks"},
      {"heads", "heads"},
      {"dropout", "dropout while training"},
      {"layer_scale", "initial scale of both branches of a block"},
      {"positions", "position vectors: learned, or none (context without limit)"},
      {"bias_positions", "first positions with a membership bias (-1: the block)"},
      {"conv", "taps of a causal convolution on the projected tokens (0: none)"},
      {"decay", "forgetting of the statistics, a rate a head: none, fixed, learned"},
      {"scale_pi", "memberships times heads"},
      {"means", "first moments in addition to the second ones: none, tokens, values"},
      {"gate", "output gate"},
      {"window", "tokens that softmax sees (0: all)"},
      {"attention_dropout", "dropout of the weights of softmax (-1: as dropout)"},
      {"beta_range", "upper end of delta's beta: 1, or 2, with which its state can count"},
      {"delta_steps", "updates of delta's memory by each token"},
      {"hybrid_every", "every how many blocks the hybrid mixer stands (0: nowhere)"},
      {"hybrid_mixer", "mixer of those blocks"},
  };
  return kHelp;
}

void check_language(const L& config) {
  check_loop_config(config);
  if (config.data.empty()) {
    fail_usage("data is empty; name a text file, a folder of text or a token file.");
  }
  if (config.from.empty()) language_config(config);
}

FieldTable<A> make_answer_fields() {
  auto t = model_fields<A>({"task"}, recall_preset_names());
  t.text("data", &A::data, kWarn, "folder of a task that python -m tost.tasks makes",
         absolute_setting)
      .integer("batch", &A::batch, 1, 65536, kFixed, "samples a batch")
      .integer("eval_samples", &A::eval_samples, 1, 1'000'000, kWarn,
               "samples of every group that an evaluation takes, the same every time");
  return t.include(loop_fields()).include(step_fields());
}

// What small models of characters and of tasks have in common.
json small_run() {
  return {{"max_steps", 2000},
          {"min_lr", 1e-4},
          {"warmup_steps", 100},
          {"weight_decay", 0.1},
          {"beta2", 0.99},
          {"clip", 1},
          {"evaluate_every_steps", 250},
          {"checkpoint_every_steps", 500}};
}

}  // namespace

const ConfigForm<L>& language_train_form() {
  static const ConfigForm<L> form{
      make_language_fields(), language_recipes(), check_language,
      shorthand_fields(language_shorthand_help(), to_json(LanguageConfig{}))};
  return form;
}

LanguageConfig changed_language_config(const std::string& mixer, const json& model_options,
                                       LanguageConfig base) {
  if (!mixer.empty()) base.mixer = mixer;
  try {
    base = language_config_from_json(model_options, base);
    validate(base);
  } catch (const Error& error) {
    fail_usage("The model cannot be made: ", error.what());
  }
  return base;
}

LanguageConfig language_config(const L& config) {
  return changed_language_config(config.mixer, config.model_options, language_preset(config.model));
}

const ConfigForm<A>& answer_train_form() {
  static const ConfigForm<A> form{make_answer_fields(),
                                  {{"task", merge(small_run(), {{"lr", 3e-3}, {"log_every", 50}})}},
                                  [](const A& config) { check_loop_config(config); },
                                  language_train_form().shorthands};
  return form;
}

LanguageConfig answer_model_config(const A& config, const TokenTaskData& data) {
  LanguageConfig base = language_preset(config.model);
  base.vocab = data.vocabulary();
  base.auto_encoder = data.restores();
  base.block = 1;
  for (int64_t group = 0; group < data.groups(); ++group) {
    base.block = std::max(base.block, data.length(group));
  }
  return changed_language_config(config.mixer, config.model_options, std::move(base));
}

std::vector<Recipe<LanguageTrainConfig>> language_recipes() {
  // The preset's LayerScale starts at 1 (see presets.cc).
  const json character = merge(small_run(), {{"lr", 1e-3}, {"sample_every_steps", 500}});
  const json character_gpu{
      {"model", "tost_gpt_char_gpu"}, {"batch", 64}, {"max_steps", 5000}, {"eval_batches", 200}};
  const json gpt2{{"model", "tost_gpt_base"},
                  {"seed", 1337},
                  {"batch", 60},
                  {"accumulate", 8},
                  {"max_steps", 600'000},
                  {"lr", 6e-4},
                  {"min_lr", 6e-5},
                  {"warmup_steps", 2000},
                  {"weight_decay", 0.01},
                  {"beta2", 0.95},
                  {"clip", 1},
                  {"precision", recipe_precision()},
                  {"evaluate_every_steps", 100},
                  {"eval_batches", 200},
                  {"checkpoint_every_steps", 100}};
  const json medium{
      {"model", "tost_gpt_medium"}, {"batch", 30}, {"accumulate", 16}, {"weight_decay", 0.1}};
  const json large{
      {"model", "tost_gpt_large"}, {"batch", 20}, {"accumulate", 24}, {"weight_decay", 0.1}};
  return {{"char", character},
          {"char-gpu", merge(character, character_gpu)},
          {"gpt2", gpt2},
          {"gpt2-medium", merge(gpt2, medium)},
          {"gpt2-large", merge(gpt2, large)}};
}

}  // namespace tost
