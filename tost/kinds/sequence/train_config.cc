// The checks of settings, and the named recipes. lra-TASK are the base configurations of the public
// code of arXiv 2011.04006; s4-TASK have the sizes and lengths of the code of arXiv 2111.00396.
// Comments mark differences.
#include "tost/kinds/sequence/train_config.h"

#include <cmath>

#include "tost/base/error.h"
#include "tost/io/named_sets.h"
#include "tost/kinds/sequence/classifier.h"
#include "tost/nn/token_mixer.h"

namespace tost {
namespace {

using nlohmann::json;
using enum OnResume;
using S = SequenceTrainConfig;

constexpr int64_t kMany = int64_t{1} << 40;

void add_sequence_batch_fields(FieldTable<S>& t) {
  t.integer("batch", &S::batch, 1, 65536, kFixed, "sequences a batch")
      .integer("eval_batch", &S::eval_batch, 1, 65536, kFree, "sequences a batch of evaluation")
      .integer("length_groups", &S::length_groups, 1, 1'000'000, kFixed,
               "shuffled batches that are sorted by length together, so that less is padding (1: "
               "none)");
}

std::string stored_sequence_data(const std::string& data) {
  return means_generated(data, "auto") ? data : absolute_where_found(data);
}

void add_sequence_data_fields(FieldTable<S>& t) {
  t.text("data", &S::data, kWarn, "file or folder; or generated: listops", stored_sequence_data)
      .choice("data_format", &S::data_format, {"auto", "listops", "text", "retrieval", "pixels"},
              kFixed, "format of the data")
      .integer("max_length", &S::max_length, 0, kMany, kFixed,
               "tokens that sequences are cut to (0: nothing is cut)")
      .number("holdout", &S::holdout, -1, 0.9, kFixed,
              "share of the training sequences kept for validation where the data has no such "
              "split (-1: 5 %, at most 5000; 0: none, the test split is scored instead)")
      .integer("data_seed", &S::data_seed, 0, kMany, kFixed, "seed of generated data")
      .integer("train_size", &S::train_size, 1, 10'000'000, kFixed, "generated training sequences")
      .integer("test_size", &S::test_size, 1, 10'000'000, kFixed,
               "generated test sequences, and as many for validation")
      .integer("min_tokens", &S::min_tokens, 0, kMany, kFixed,
               "ListOps: expressions are longer than this")
      .integer("max_tokens", &S::max_tokens, 1, kMany, kFixed,
               "ListOps: and shorter than this, in tokens without parentheses")
      .integer("max_depth", &S::max_depth, 1, 1000, kFixed, "ListOps: deepest nesting")
      .integer("max_arguments", &S::max_arguments, 2, 1000, kFixed,
               "ListOps: most arguments of an operator");
}

FieldTable<S> make_sequence_fields() {
  auto table = model_fields<S>(names_of(sequence_recipes()), sequence_preset_names(), mixer_in_use);
  add_sequence_batch_fields(table);
  add_sequence_data_fields(table);
  return table.include(loop_fields())
      .include(epoch_fields())
      .integer("warmup_steps", &S::warmup_steps, 0, kMany, kWarn,
               "length of the linear warm-up in steps (0: warmup_epochs)")
      .integer("evaluate_every_steps", &S::evaluate_every_steps, 0, kMany, kWarn,
               "steps between evaluations (0: evaluate_every)");
}

// The help texts of the fields of SequenceConfig that are also settings.
const std::vector<std::pair<const char*, const char*>>& sequence_shorthand_help() {
  static const std::vector<std::pair<const char*, const char*>> kHelp = {
      {"dim", "width"},
      {"depth", "blocks"},
      {"heads", "heads"},
      {"mlp", kMlpHelp},
      {"mlp_hidden", "hidden units of the MLP (0: four times the width)"},
      {"pool", "class: a class token in front; mean: of the sequence's tokens"},
      {"positions", "position vectors: learned, sinusoidal, none"},
      {"layer_scale", "initial scale of both branches of a block"},
      {"dropout", "dropout while training"},
      {"hybrid_every", "every how many blocks the hybrid mixer stands (0: nowhere)"},
      {"hybrid_mixer", "mixer of those blocks"},
  };
  return kHelp;
}

void check_sequence(const S& config) {
  check_loop_config(config);
  if (config.data.empty()) {
    fail_usage(
        "data is empty; name a file or folder of sequences, or listops, which is generated.");
  }
  if (config.from.empty()) sequence_config(config);
}

}  // namespace

const ConfigForm<S>& sequence_train_form() {
  static const ConfigForm<S> form{
      make_sequence_fields(), sequence_recipes(), check_sequence,
      shorthand_fields(sequence_shorthand_help(), to_json(SequenceConfig{}))};
  return form;
}

SequenceSpec sequence_spec(const S& c) {
  return {.path = c.data,
          .format = c.data_format,
          .max_length = c.max_length,
          .holdout = c.holdout,
          .seed = uint64_t(c.data_seed),
          .train_size = c.train_size,
          .test_size = c.test_size,
          .min_tokens = c.min_tokens,
          .max_tokens = c.max_tokens,
          .max_depth = c.max_depth,
          .max_arguments = c.max_arguments};
}

SequenceConfig changed_sequence_config(const S& config, SequenceConfig base) {
  if (!config.mixer.empty()) base.mixer = config.mixer;
  try {
    base = sequence_config_from_json(config.model_options, base);
    validate(base);
  } catch (const Error& error) {
    fail_usage("The model cannot be made: ", error.what());
  }
  return base;
}

SequenceConfig sequence_config(const S& config) {
  SequenceConfig base = sequence_preset(config.model);
  if (config.max_length > 0) base.max_length = config.max_length;
  return changed_sequence_config(config, base);
}

namespace {

// The recipe seq: training for minutes on a few cores.
json seq() {
  return {{"min_tokens", 20},      {"max_tokens", 200}, {"epochs", 5},          {"lr", 1e-3},
          {"warmup_epochs", 0.25}, {"min_lr", 1e-5},    {"weight_decay", 0.05}, {"clip", 1},
          {"length_groups", 16}};
}

// The recipe lra: one set of hyperparameters for every task.
json lra() {
  return {{"model", "tost_lra"},
          {"train_size", 96'000},
          {"test_size", 2'000},
          {"batch", 32},
          {"length_groups", 16},
          {"max_steps", 20'000},
          {"warmup_steps", 1'000},
          {"lr", 1e-3},
          {"min_lr", 1e-5},
          {"weight_decay", 0.05},
          {"clip", 1},
          {"evaluate_every_steps", 1'000},
          {"checkpoint_every_steps", 1'000}};
}

// The three tasks of text use Adam with decoupled decay, and the inverse square root of the step.
// The benchmark's base rate of 0.05 is a peak of 0.05 / sqrt(warm-up). The benchmark decays every
// parameter; the recipes exempt biases, norms and rates of state-space models.
json lra_text(int64_t warmup, int64_t steps) {
  return {{"batch", 32},
          {"max_steps", steps},
          {"warmup_steps", warmup},
          {"schedule", "rsqrt"},
          {"lr", 0.05 / std::sqrt(double(warmup))},
          {"weight_decay", 0.1},
          {"beta2", 0.98},
          {"eps", 1e-9},
          {"evaluate_every_steps", 500},
          {"checkpoint_every_steps", 500}};
}

// The three tasks of pictures: a cosine over 200 epochs after an epoch of warm-up, without decay.
json lra_pixels(double lr, int64_t batch, double clip = 0) {
  return {{"batch", batch},    {"epochs", 200}, {"warmup_epochs", 1}, {"lr", lr},
          {"weight_decay", 0}, {"beta2", 0.98}, {"eps", 1e-9},        {"clip", clip}};
}

// S4's rate is 1e-2 (4e-3 for Pathfinder, 1e-3 for Path-X) with batch normalisation, and at most
// 1e-3 for the state matrices. The s4 recipes, with layer normalisation, have a rate of 1e-3 for
// all parameters.
json s4(int64_t batch, int64_t epochs, int64_t max_length, double decay, double warmup = 1) {
  return {{"batch", batch},      {"epochs", epochs},       {"max_length", max_length},
          {"lr", 1e-3},          {"weight_decay", decay},  {"clip", 1},
          {"length_groups", 16}, {"warmup_epochs", warmup}};
}

struct Task {
  const char* name;
  json data, lra, s4;
};

// Sets the data only for tasks whose data set has a name; otherwise the user must set the data.
// Text is read to 4,000 bytes as in the paper's results; the configuration file has 1,000.
std::vector<Task> tasks() {
  const auto read = [](const char* format) {
    return json{{"data", ""}, {"data_format", format}, {"max_length", 4'000}};
  };
  return {{"listops",
           {{"train_size", 96'000}, {"test_size", 2'000}, {"max_length", 2'000}},
           lra_text(1'000, 5'000),
           s4(50, 40, 2'000, 0.05)},
          {"text", read("text"), lra_text(8'000, 20'000), s4(16, 32, 4'096, 0.05)},
          {"retrieval", read("retrieval"), lra_text(8'000, 5'000), s4(64, 20, 4'000, 0.05)},
          {"image",
           {{"data", ""}, {"data_format", "pixels"}},
           lra_pixels(5e-4, 256),
           s4(50, 200, 0, 0.05)},
          {"pathfinder", {{"data", ""}}, lra_pixels(1e-3, 512), s4(64, 200, 0, 0.03)},
          {"pathx", {{"data", ""}}, lra_pixels(1e-3, 64, 1), s4(16, 50, 0, 0.05, 5)}};
}

}  // namespace

std::vector<Recipe<SequenceTrainConfig>> sequence_recipes() {
  std::vector<Recipe<SequenceTrainConfig>> recipes{{"seq", seq()}, {"lra", lra()}};
  for (const auto& [family, settings] : {std::pair{"lra", &Task::lra}, {"s4", &Task::s4}}) {
    for (const Task& task : tasks()) {
      json values = merge(task.data, task.*settings);
      values["model"] = cat("tost_", family, "_", task.name);
      recipes.push_back({cat(family, "-", task.name), values});
    }
  }
  return recipes;
}

}  // namespace tost
