// What one core does of the Long Range Arena in minutes a run.
#include "tost/study/lra_plan.h"

namespace tost {

using nlohmann::json;

// Widths, lengths and steps are cut, and the warm-up with them; the form of the schedule, decay,
// pooling, positions and dropout stay the recipe's.
json lra_reduction(const std::string& task) {
  const json small{{"dim", 64}, {"heads", 4}, {"mlp_hidden", 128}, {"depth", 2}};
  json settings{{"model_options", small}, {"threads", 1}, {"length_groups", 16}};
  if (task == "listops") {
    settings.update({{"min_tokens", 10},
                     {"max_tokens", 60},
                     {"max_length", 60},
                     {"train_size", 20'000},
                     {"test_size", 1'000},
                     {"max_steps", 1'500},
                     {"warmup_steps", 300},
                     {"evaluate_every_steps", 300}});
  } else if (task == "text" || task == "retrieval") {
    settings.update({{"max_length", 512},
                     {"batch", 16},
                     {"max_steps", 300},
                     {"warmup_steps", 60},
                     {"lr", 1e-3},
                     {"evaluate_every_steps", 100}});
  } else if (task == "image" || task == "pathfinder") {
    settings.update({{"batch", 16},
                     {"holdout", 0.01},
                     {"train_size", 20'000},
                     {"test_size", 1'000},
                     {"max_steps", 400},
                     {"warmup_steps", 40},
                     {"lr", 1e-3},
                     {"evaluate_every_steps", 200}});
    settings["model_options"]["depth"] = 1;
  } else {
    return {};
  }
  return settings;
}

}  // namespace tost
