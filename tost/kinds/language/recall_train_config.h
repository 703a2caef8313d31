// Everything that decides the training of a language model on a task of recall, and its JSON form.
#pragma once

#include "tost/data/recall_data.h"
#include "tost/kinds/language/config.h"
#include "tost/train/config_form.h"
#include "tost/train/loop_config.h"

namespace tost {

// Lengths are in optimiser steps; every batch is of new samples, and an epoch is 1,000 batches.
struct RecallTrainConfig : LoopConfig {
  std::string recipe = "mqar";

  std::string model = "tost_recall";
  std::string from;   // a model file to start from; its architecture is kept
  std::string mixer;  // "": the preset's
  nlohmann::json model_options = nlohmann::json::object();  // further fields of LanguageConfig

  // As in RecallSpec.
  std::string task = "mqar";
  int64_t vocab = 256;
  double power = 0.01;
  bool random_filler = true;
  int64_t distractors = 0, questions = 1;
  std::string haystack;
  int64_t gap = 0;
  double noise = 0.2;

  std::string lengths = "64", pairs = "4";  // see parse_recall_cases; batches take turns
  int64_t batch = 64;                       // samples
  int64_t eval_samples = 256;               // of every case
};

// A recipe for each of recall_tasks(). Fields of LanguageConfig can be given without
// model_options, as for language.
const ConfigForm<RecallTrainConfig>& recall_train_form();

// Training draws from the split "train" of the run's seed, scores from "validation" of seed 0: the
// same in every run.
RecallSpec recall_spec(const RecallTrainConfig& config, uint64_t seed);
std::vector<RecallCase> recall_cases(const RecallTrainConfig& config);

// The preset with the task's vocabulary and the longest length as block, unless model_options say
// otherwise, changed by mixer and model_options. Throws a usage Error with the reason for what does
// not fit.
LanguageConfig recall_model_config(const RecallTrainConfig& config, const RecallSource& source);
// `base` changed by mixer and model_options alone, for fine-tuning.
LanguageConfig changed_recall_config(const RecallTrainConfig& config, LanguageConfig base);

}  // namespace tost
