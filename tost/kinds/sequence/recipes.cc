// The named recipes of sequence training. lra-TASK are the base configurations of the public code
// of arXiv 2011.04006; s4-TASK have the sizes and lengths of the code of arXiv 2111.00396. Comments
// mark differences.
#include <cmath>

#include "tost/base/error.h"
#include "tost/kinds/sequence/train_config.h"

namespace tost {
namespace {

using nlohmann::json;

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
