// The named recipes of language training. `char` and `char-gpu` are nanoGPT's settings for
// characters on a CPU and on a GPU; the gpt2 ones are those of the official configurations.
#include "tost/kinds/language/train_config.h"

namespace tost {
namespace {

using L = LanguageTrainConfig;

// nanoGPT on a CPU. LayerScale of the preset starts at 1, see presets.cc.
L char_recipe() {
  L c;
  c.recipe = "char";
  c.max_steps = 2000;
  c.lr = 1e-3;
  c.min_lr = 1e-4;
  c.warmup_steps = 100;
  c.weight_decay = 0.1;
  c.beta2 = 0.99;
  c.clip = 1;
  c.evaluate_every_steps = 250;
  c.checkpoint_every = 0;
  c.checkpoint_every_steps = 500;
  c.sample_every_steps = 500;
  return c;
}

L char_gpu_recipe() {
  L c = char_recipe();
  c.recipe = "char-gpu";
  c.model = "tost_gpt_char_gpu";
  c.batch = 64;
  c.max_steps = 5000;
  c.eval_batches = 200;
  return c;
}

L gpt2_recipe() {
  L c;
  c.recipe = "gpt2";
  c.model = "tost_gpt_base";
  c.seed = 1337;
  c.batch = 60;
  c.accumulate = 8;
  c.max_steps = 600'000;
  c.lr = 6e-4;
  c.min_lr = 6e-5;
  c.warmup_steps = 2000;
  c.weight_decay = 0.01;
  c.beta2 = 0.95;
  c.clip = 1;
  c.precision = recipe_precision();
  c.evaluate_every_steps = 100;
  c.eval_batches = 200;
  c.checkpoint_every = 0;
  c.checkpoint_every_steps = 100;
  return c;
}

L gpt2_medium_recipe() {
  L c = gpt2_recipe();
  c.recipe = "gpt2-medium";
  c.model = "tost_gpt_medium";
  c.batch = 30;
  c.accumulate = 16;
  c.weight_decay = 0.1;
  return c;
}

L gpt2_large_recipe() {
  L c = gpt2_recipe();
  c.recipe = "gpt2-large";
  c.model = "tost_gpt_large";
  c.batch = 20;
  c.accumulate = 24;
  c.weight_decay = 0.1;
  return c;
}

}  // namespace

std::vector<Recipe<L>> language_recipes() {
  return {{"char", char_recipe},
          {"char-gpu", char_gpu_recipe},
          {"gpt2", gpt2_recipe},
          {"gpt2-medium", gpt2_medium_recipe},
          {"gpt2-large", gpt2_large_recipe}};
}

}  // namespace tost
