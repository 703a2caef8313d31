// The named recipes of language training. `char` and `char-gpu` are nanoGPT's settings for
// characters on a CPU and on a GPU; the gpt2 recipes are those of the official configurations.
#include "tost/kinds/language/train_config.h"

namespace tost {

std::vector<Recipe<LanguageTrainConfig>> language_recipes() {
  using nlohmann::json;
  // The preset's LayerScale starts at 1 (see presets.cc).
  const json character{{"max_steps", 2000},
                       {"lr", 1e-3},
                       {"min_lr", 1e-4},
                       {"warmup_steps", 100},
                       {"weight_decay", 0.1},
                       {"beta2", 0.99},
                       {"clip", 1},
                       {"evaluate_every_steps", 250},
                       {"checkpoint_every_steps", 500},
                       {"sample_every_steps", 500}};
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
