// The settings of training a language model, and their JSON form.
#pragma once

#include <string>
#include <vector>

#include "tost/data/token_task.h"
#include "tost/kinds/language/model.h"
#include "tost/train/config_form.h"
#include "tost/train/loop_config.h"

namespace tost {

// Lengths are in optimiser steps; an epoch has as many tokens as the training text.
struct LanguageTrainConfig : LoopConfig {
  LanguageTrainConfig() { checkpoint_every = 0; }  // but every so many steps

  std::string recipe = "char";

  std::string model = "tost_gpt_char";
  std::string from;   // a model file to fine-tune, with its architecture and tokenizer
  std::string mixer;  // "": the preset's
  nlohmann::json model_options = nlohmann::json::object();  // further fields of LanguageConfig

  std::string data;
  std::string tokenizer = "auto";
  double holdout = 0.1;

  int64_t batch = 12;          // sequences of the model's block
  int64_t eval_batches = 100;  // random crops of the validation text, the same every time

  std::string sample_prompt = "\n";
  int64_t sample_tokens = 200;
  double sample_temperature = 0.8;
};

// The recipes are char, char-gpu, gpt2, gpt2-medium and gpt2-large. Fields of LanguageConfig, such
// as block, can be set without model_options.
const ConfigForm<LanguageTrainConfig>& language_train_form();
std::vector<Recipe<LanguageTrainConfig>> language_recipes();

// The preset, changed by mixer and model_options. Throws a usage Error if the settings contradict
// each other.
LanguageConfig language_config(const LanguageTrainConfig& config);
// Changes `base` by mixer and model_options; mixer "" changes no mixer.
LanguageConfig changed_language_config(const std::string& mixer,
                                       const nlohmann::json& model_options, LanguageConfig base);

// The settings of training on a task of tokens.
// Lengths are in optimiser steps. An epoch has the number of batches that the split train fills;
// groups alternate from batch to batch.
struct AnswerTrainConfig : LoopConfig {
  AnswerTrainConfig() { checkpoint_every = 0; }  // but every so many steps

  std::string recipe = "task";

  std::string model = "tost_recall_stream";
  std::string from;   // a model file to start from, with its architecture
  std::string mixer;  // "": the preset's
  nlohmann::json model_options = nlohmann::json::object();  // further fields of LanguageConfig

  std::string data;            // a folder that is_token_task() knows
  int64_t batch = 64;          // samples
  int64_t eval_samples = 256;  // of every group
};

// Fields of LanguageConfig can be set without model_options, as for texts.
const ConfigForm<AnswerTrainConfig>& answer_train_form();

// The preset with the task's vocabulary and longest sample as block, changed by mixer and
// model_options. Throws a usage Error if the settings contradict each other.
LanguageConfig answer_model_config(const AnswerTrainConfig& config, const TokenTaskData& data);

}  // namespace tost
