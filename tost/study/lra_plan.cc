#include "tost/study/lra_plan.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/data/sequence_dataset.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/sequence/train_config.h"
#include "tost/nn/token_mixer.h"

namespace tost {
namespace {

using nlohmann::json;

struct TaskFacts {
  const char* name;
  const char* title;
  const char* given;  // what must be given where it is not generated
};

constexpr TaskFacts kTasks[] = {
    {"listops", "ListOps", ""},
    {"text", "Text", "a folder of class folders, or a table label<TAB>text"},
    {"retrieval", "Retrieval", "a table label<TAB>id<TAB>id<TAB>text<TAB>text"},
    {"image", "Image", "a set of pictures such as CIFAR-10"},
    {"pathfinder", "Pathfinder", ""},
    {"pathx", "Path-X", ""},
};

const TaskFacts& facts_of(const std::string& task) {
  for (const TaskFacts& facts : kTasks) {
    if (facts.name == task) return facts;
  }
  fail_usage("Unknown task '", task, "' (known: ", join(lra_tasks(), ", "), ").",
             did_you_mean(task, lra_tasks()));
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_options(const LraOptions& options) {
  for (const std::string& task : options.tasks) facts_of(task);
  for (const std::string& mixer : options.mixers) check_mixer_name(mixer);
  if (options.mixers.empty()) fail_usage("There is no mixer to train; name at least one.");
  if (options.seeds.empty()) fail_usage("There is no seed; give at least one, as in 0,1,2.");
  const std::vector<std::string> protocols{"google", "s4"};
  if (!has(protocols, options.protocol)) {
    fail_usage("Unknown protocol '", options.protocol, "'; use google or s4.",
               did_you_mean(options.protocol, protocols));
  }
  for (const auto& [task, path] : options.data) {
    facts_of(task);
    if (options.tasks.empty() || has(options.tasks, task)) continue;
    fail_usage("Data is given for ", task, ", which is not among the tasks to run.");
  }
}

// What a task is, whatever learns it: its data, and what it is cut to.
json task_settings(const std::string& task, const std::string& protocol) {
  const SequenceTrainConfig recipe =
      make_recipe(sequence_train_form(), cat(protocol == "s4" ? "s4-" : "lra-", task));
  return TOST_MEMBERS(recipe, data, data_format, max_length, side, train_size, test_size);
}

json settings_of(const std::string& task, const LraOptions& options) {
  json settings{{"recipe", cat(options.protocol == "s4" ? "s4-" : "lra-", task)}};
  if (options.one) settings = merge(task_settings(task, options.protocol), {{"recipe", "lra"}});
  if (options.reduced) settings = merge(settings, lra_reduction(task));
  const auto data = options.data.find(task);
  if (data != options.data.end()) settings["data"] = data->second;
  return merge(settings, options.settings);
}

std::string title_of(const std::string& task, const LraOptions& options) {
  std::string title = cat(lra_title(task), ", ", lra_protocol_title(options));
  return options.reduced ? title + ", reduced" : title;
}

// The test split, or what there is instead.
std::string scored_split(const json& settings) {
  const SequenceTrainConfig config = make_config(sequence_train_form(), settings);
  const auto splits = sequence_dataset_splits(sequence_spec(config));
  return has(splits, "test") ? "test" : "validation";
}

SweepSpec spec_of(const std::string& task, const LraOptions& options) {
  SweepSpec spec;
  spec.title = title_of(task, options);
  spec.settings = settings_of(task, options);
  spec.seeds = options.seeds;
  spec.plot = SweepPlot::kCurve;
  GridAxis mixers{"mixer", {}};
  for (const std::string& mixer : options.mixers) mixers.values.emplace_back(mixer);
  spec.grid.push_back(std::move(mixers));
  spec.split = scored_split(spec.settings);
  return spec;
}

// Why a task cannot be run; "" where it can.
std::string obstacle(const std::string& task, const LraOptions& options) {
  const TaskFacts& facts = facts_of(task);
  if (*facts.given != '\0' && !options.data.contains(task)) {
    return cat(facts.title, " is left out: it is not generated; give it with --data ", task,
               "=PATH (", facts.given, ").");
  }
  if (options.reduced && lra_reduction(task).is_null()) {
    return cat(facts.title, " is left out: there is no reduced form of its ", human_number(16'384),
               " tokens.");
  }
  return "";
}

}  // namespace

const std::vector<std::string>& lra_tasks() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const TaskFacts& facts : kTasks) all.emplace_back(facts.name);
    return all;
  }();
  return names;
}

std::string lra_title(const std::string& task) {
  return facts_of(task).title;
}

std::string lra_protocol_title(const LraOptions& options) {
  return cat(options.one ? "one recipe on data as in the " : "", options.protocol, " protocol");
}

LraPlan plan_lra(const LraOptions& options) {
  check_options(options);
  LraPlan plan;
  plan.reference = has(options.mixers, "softmax") ? "softmax" : options.mixers.front();
  for (const std::string& task : lra_tasks()) {
    if (!options.tasks.empty() && !has(options.tasks, task)) continue;
    const std::string why = obstacle(task, options);
    if (why.empty()) {
      plan.tasks.push_back({task, spec_of(task, options)});
    } else {
      plan.missing.push_back({task, why});
    }
  }
  if (plan.tasks.empty()) fail_usage("No task can be run: ", plan.missing.front().why);
  return plan;
}

// What one core does of the Long Range Arena in minutes a run.

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
