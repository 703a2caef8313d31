// Everything that decides the training of a language model on a task of tokens, and its JSON form.
#pragma once

#include "tost/data/token_task.h"
#include "tost/kinds/language/config.h"
#include "tost/train/config_form.h"
#include "tost/train/loop_config.h"

namespace tost {

// Lengths are in optimiser steps. An epoch is as many batches as the samples of the split train
// make; batches take turns among the groups.
struct AnswerTrainConfig : LoopConfig {
  std::string recipe = "task";

  std::string model = "tost_recall_stream";
  std::string from;   // a model file to start from; its architecture is kept
  std::string mixer;  // "": the preset's
  nlohmann::json model_options = nlohmann::json::object();  // further fields of LanguageConfig

  std::string data;            // a folder that is_token_task() knows
  int64_t batch = 64;          // samples
  int64_t eval_samples = 256;  // of every group
};

// Fields of LanguageConfig can be given without model_options, as for language.
const ConfigForm<AnswerTrainConfig>& answer_train_form();

// The preset with the task's vocabulary and the longest sample as block, unless model_options say
// otherwise, changed by mixer and model_options. Throws a usage Error with the reason for what does
// not fit.
LanguageConfig answer_model_config(const AnswerTrainConfig& config, const TokenTaskData& data);
// `base` changed by mixer and model_options alone, for fine-tuning.
LanguageConfig changed_answer_config(const AnswerTrainConfig& config, LanguageConfig base);

}  // namespace tost
