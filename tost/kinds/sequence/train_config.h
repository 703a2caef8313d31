// The settings of training a classifier of sequences, and their JSON form.
#pragma once

#include <string>
#include <vector>

#include "tost/data/sequence_dataset.h"
#include "tost/kinds/sequence/config.h"
#include "tost/train/config_form.h"
#include "tost/train/loop_config.h"

namespace tost {

// Lengths are in epochs, or in steps if max_steps, warmup_steps and evaluate_every_steps are above
// 0.
struct SequenceTrainConfig : LoopConfig {
  std::string recipe = "seq";

  std::string model = "tost_seq_tiny";
  std::string from;   // a model file to fine-tune; its architecture then replaces `model`
  std::string mixer;  // "": the preset's
  nlohmann::json model_options = nlohmann::json::object();  // further fields of SequenceConfig

  std::string data = "listops";
  std::string data_format = "auto";
  // The length to which sequences are truncated, and the model's length unless model_options sets
  // another; 0: no limit.
  int64_t max_length = 0;
  double holdout = -1;
  int64_t data_seed = 0;
  int64_t train_size = 10'000;
  int64_t test_size = 1'000;
  int64_t min_tokens = 500;
  int64_t max_tokens = 2'000;
  int64_t max_depth = 10;
  int64_t max_arguments = 10;

  int64_t batch = 32;
  int64_t eval_batch = 64;
  int64_t length_groups = 1;
};

// The recipes are seq, lra for every task of the Long Range Arena, and lra-TASK and s4-TASK with
// the settings of arXiv 2011.04006 and 2111.00396, for the tasks listops, text, retrieval, image,
// pathfinder and pathx. Fields of SequenceConfig, such as dim, can be set without model_options.
const ConfigForm<SequenceTrainConfig>& sequence_train_form();
std::vector<Recipe<SequenceTrainConfig>> sequence_recipes();

SequenceSpec sequence_spec(const SequenceTrainConfig& config);

// The preset, for sequences of max_length tokens, changed by mixer and model_options. Throws a
// usage Error with the reason for settings that do not fit.
SequenceConfig sequence_config(const SequenceTrainConfig& config);
// Changes `base` by mixer and model_options, for fine-tuning; the number of positions does not
// change.
SequenceConfig changed_sequence_config(const SequenceTrainConfig& config, SequenceConfig base);

}  // namespace tost
