#include "tost/study/quality_plan.h"

#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/language/model.h"
#include "tost/kinds/language/recall_train_config.h"
#include "tost/kinds/language/train_config.h"
#include "tost/kinds/sequence/classifier.h"
#include "tost/kinds/sequence/train_config.h"
#include "tost/nn/state_dict.h"
#include "tost/study/lra_plan.h"
#include "tost/study/sweep_plan.h"
#include "tost/train/config_field.h"

namespace tost {
namespace {

using nlohmann::json;

constexpr char kReference[] = "softmax";

struct Contestant {
  std::string name;
  json settings;
};

// All with a causal convolution over four tokens and without positions; ours first.
std::vector<Contestant> causal_contestants() {
  return {{"tssa", {{"mixer", "tssa"}}},
          {"means", {{"mixer", "means"}, {"decay", "learned"}, {"gate", true}}},
          {"delta-tssa", {{"mixer", "delta"}, {"hybrid_every", 2}, {"hybrid_mixer", "tssa"}}},
          {kReference, {{"mixer", "softmax"}}},
          {"none", {{"mixer", "none"}}},
          {"linear", {{"mixer", "linear"}}},
          {"delta", {{"mixer", "delta"}}},
          {"gated-delta", {{"mixer", "delta"}, {"decay", "learned"}}},
          {"ssm", {{"mixer", "ssm"}}}};
}

std::vector<Contestant> other_contestants() {
  std::vector<Contestant> all;
  for (const char* mixer :
       {"tssa", "means", kReference, "none", "linear", "xca", "ssm", "mssa", "cbsa"}) {
    all.push_back({mixer, {{"mixer", mixer}}});
  }
  return all;
}

struct TaskFacts {
  const char* name;
  const char* title;
  bool causal;
  const char* given;  // what --data must name; "": it is generated
};

constexpr TaskFacts kTasks[] = {
    {"mqar", "Associative recall (MQAR)", true, ""},
    {"parity", "Parity", true, ""},
    {"s3", "Permutations of three (S3)", true, ""},
    {"in-context-recall", "In-context recall (MAD)", true, ""},
    {"noisy-in-context-recall", "Noisy in-context recall (MAD)", true, ""},
    {"fuzzy-in-context-recall", "Fuzzy in-context recall (MAD)", true, ""},
    {"selective-copying", "Selective copying (MAD)", true, ""},
    {"memorization", "Memorization (MAD)", true, ""},
    {"compression", "Compression (MAD)", true, ""},
    {"words", "Words", true, "a text such as WikiText-2"},
    {"characters", "Characters", true, "a text such as Tiny Shakespeare"},
    {"listops", "ListOps, reduced", false, ""},
    {"image", "Image by pixels, reduced", false, "a set of pictures such as CIFAR-10"},
};

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_names(const std::vector<std::string>& names, const std::vector<std::string>& known,
                 const char* what) {
  for (const std::string& name : names) {
    if (has(known, name)) continue;
    fail_usage("Unknown ", what, " '", name, "' (known: ", join(known, ", "), ").",
               did_you_mean(name, known));
  }
}

void check_options(const QualityOptions& options) {
  check_names(options.tasks, quality_tasks(), "task");
  check_names(options.contestants, quality_contestants(), "contestant");
  if (options.seeds.empty()) fail_usage("There is no seed; give at least one, as in 0,1,2.");
  if (std::find(options.seeds.begin(), options.seeds.end(), kTuningSeed) != options.seeds.end()) {
    fail_usage("Seed ", kTuningSeed, " chooses the learning rates; report other seeds.");
  }
  if (options.learning_rates.empty()) fail_usage("There is no learning rate; give at least one.");
  for (const double rate : options.learning_rates) {
    if (!(rate > 0 && rate <= 1)) {
      fail_usage("The learning rate ", rate, " is not above 0 and at most 1.");
    }
  }
  for (const auto& [task, path] : options.data) {
    check_names({task}, quality_tasks(), "task");
    if (!options.tasks.empty() && !has(options.tasks, task)) {
      fail_usage("Data is given for ", task, ", which is not among the tasks to run.");
    }
    if (!path_exists(path))
      fail_usage("There is no '", path, "', which is to be the data of ", task, ".");
  }
}

// Two blocks of width 64, as in docs/recall.md.
json recall_settings(const std::string& task) {
  json settings{{"recipe", task},     {"model", "tost_recall_stream"},
                {"batch", 32},        {"max_steps", 1500},
                {"warmup_steps", 50}, {"weight_decay", 0.01},
                {"threads", 1},       {"evaluate_every_steps", 500}};
  if (task == "mqar") {
    settings.update({{"vocab", 64}, {"lengths", "16,32,64,64"}, {"pairs", "2,4,8,16"}});
  }
  return settings;
}

// The CPU setting of docs/language.md, shorter.
json text_settings(const std::string& task, const std::string& data) {
  json settings{{"recipe", "char"},
                {"data", data},
                {"max_steps", 1000},
                {"threads", 1},
                {"evaluate_every_steps", 500},
                {"model_options",
                 {{"positions", "none"}, {"conv", 4}, {"depth", 2}, {"dim", 128}, {"heads", 4}}}};
  if (task == "words") {
    settings.update({{"model", "tost_gpt_words"}, {"tokenizer", "words:4096"}, {"batch", 6}});
  }
  return settings;
}

SweepSpec arena_spec(const std::string& task, const QualityOptions& options) {
  LraOptions arena{.tasks = {task},
                   .one = true,
                   .mixers = {kReference},
                   .seeds = options.seeds,
                   .data = options.data,
                   .reduced = true};
  std::erase_if(arena.data, [&](const auto& entry) { return entry.first != task; });
  SweepSpec spec = plan_lra(arena).tasks.front().spec;
  spec.grid.clear();
  return spec;
}

// Minutes for all tasks, on one thread.
json quick_settings(const std::string& task) {
  json settings{{"batch", 8},
                {"max_steps", 12},
                {"warmup_steps", 2},
                {"evaluate_every_steps", 12},
                {"threads", 1}};
  if (task == "listops" || task == "image") {
    settings.update({{"train_size", 400}, {"test_size", 40}});
    settings["model_options"] = {{"dim", 16}, {"heads", 2}, {"depth", 1}};
    if (task == "image") settings["max_length"] = 64;  // the first pixels; all pictures are scored
    return settings;
  }
  settings["model_options"] = {{"dim", 16}, {"heads", 2}};
  if (task == "words" || task == "characters") {
    settings["model_options"]["block"] = 32;
    settings["eval_batches"] = 4;
    if (task == "words") settings["tokenizer"] = "words:256";
    return settings;
  }
  settings["eval_samples"] = 16;
  settings["lengths"] = task == "parity" || task == "s3" || task == "mqar" ? "8,16" : "24,32";
  if (recall_has_pairs(task)) settings["pairs"] = "2,4";
  if (task == "mqar") settings["vocab"] = 16;
  return settings;
}

SweepSpec base_spec(const TaskFacts& task, const QualityOptions& options) {
  SweepSpec spec;
  if (!task.causal) {
    spec = arena_spec(task.name, options);
  } else if (*task.given == '\0') {
    spec.settings = recall_settings(task.name);
  } else {
    spec.settings = text_settings(task.name, options.data.at(task.name));
  }
  spec.title = task.title;
  spec.seeds = options.seeds;
  if (options.quick) spec.settings = merge(spec.settings, quick_settings(task.name));
  spec.settings = merge(spec.settings, options.settings);
  return spec;
}

QualityTask make_task(const TaskFacts& facts, const QualityOptions& options) {
  QualityTask task{.name = facts.name,
                   .title = facts.title,
                   .causal = facts.causal,
                   .spec = base_spec(facts, options),
                   .tuning_split = {},
                   .state_bytes = {}};
  task.tuning_split = task.spec.split.empty() ? "" : "validation";
  const auto all = facts.causal ? causal_contestants() : other_contestants();
  const int64_t wanted =
      parameters_of_settings(merge(task.spec.settings, {{"mixer", kReference}}), facts.causal);
  for (const Contestant& one : all) {
    if (!options.contestants.empty() && !has(options.contestants, one.name)) continue;
    const json settings =
        with_parameters(merge(task.spec.settings, one.settings), facts.causal, wanted);
    task.spec.variants.push_back({.name = one.name, .settings = settings});
    if (facts.causal) task.state_bytes[one.name] = state_bytes_of_settings(settings);
  }
  return task;
}

json rate_settings(double rate) {
  return {{"lr", rate}};
}

}  // namespace

std::vector<std::string> quality_tasks() {
  std::vector<std::string> names;
  for (const TaskFacts& task : kTasks) names.emplace_back(task.name);
  return names;
}

std::vector<std::string> quality_contestants() {
  std::vector<std::string> names;
  for (const auto& list : {causal_contestants(), other_contestants()}) {
    for (const Contestant& one : list) {
      if (!has(names, one.name)) names.push_back(one.name);
    }
  }
  return names;
}

std::string tuning_variant(const std::string& contestant, double rate) {
  return cat(contestant, "_lr-", json_text(json(rate)));
}

SweepSpec tuning_sweep(const QualityTask& task, const std::vector<double>& rates) {
  SweepSpec spec = task.spec;
  spec.title += ": learning rates";
  spec.note = "One run for each contestant and learning rate, of a seed that is not reported.";
  spec.seeds = {kTuningSeed};
  spec.split = task.tuning_split;
  spec.variants.clear();
  for (const SweepVariant& one : task.spec.variants) {
    for (const double rate : rates) {
      spec.variants.push_back({.name = tuning_variant(one.name, rate),
                               .settings = merge(one.settings, rate_settings(rate))});
    }
  }
  return spec;
}

SweepSpec final_sweep(const QualityTask& task, const std::map<std::string, double>& chosen) {
  SweepSpec spec = task.spec;
  spec.variants.clear();
  for (const SweepVariant& one : task.spec.variants) {
    const auto rate = chosen.find(one.name);
    if (rate == chosen.end()) continue;
    spec.variants.push_back(
        {.name = one.name, .settings = merge(one.settings, rate_settings(rate->second))});
  }
  return spec;
}

QualityPlan plan_quality(const QualityOptions& options) {
  check_options(options);
  QualityPlan plan{.tasks = {}, .missing = {}, .learning_rates = options.learning_rates};
  for (const TaskFacts& facts : kTasks) {
    if (!options.tasks.empty() && !has(options.tasks, facts.name)) continue;
    if (*facts.given != '\0' && !options.data.contains(facts.name)) {
      plan.missing.push_back(
          {facts.name, cat(facts.title, " is left out: give its data with --data ", facts.name,
                           "=PATH (", facts.given, ").")});
      continue;
    }
    QualityTask task = make_task(facts, options);
    if (task.spec.variants.empty()) {
      plan.missing.push_back({facts.name, cat(facts.title,
                                              " is left out: none of the contestants "
                                              "is made for it.")});
      continue;
    }
    make_plan(tuning_sweep(task, plan.learning_rates));
    plan.tasks.push_back(std::move(task));
  }
  if (plan.tasks.empty()) fail_usage("No task can be run: ", plan.missing.front().why);
  return plan;
}

namespace {

bool has_recall_recipe(const json& settings) {
  for (const std::string& task : recall_tasks()) {
    if (settings.value("recipe", "") == task) return true;
  }
  return false;
}

LanguageConfig language_of(const json& settings) {
  if (!has_recall_recipe(settings)) {
    return language_config(make_config(language_train_form(), settings));
  }
  const RecallTrainConfig config = make_config(recall_train_form(), settings);
  return recall_model_config(config, *open_recall(recall_spec(config, 0)));
}

SequenceConfig sequence_of(const json& settings) {
  return sequence_config(make_config(sequence_train_form(), settings));
}

}  // namespace

int64_t parameters_of_settings(const json& settings, bool causal) {
  if (!causal) return parameter_count(*make_sequence_classifier(sequence_of(settings)));
  return parameter_count(*make_language_model(language_of(settings), WeightInit::kNone));
}

int64_t state_bytes_of_settings(const json& settings) {
  LanguageConfig config = language_of(settings);
  const int64_t tokens = config.block;
  const auto model = make_language_model(config);
  model->eval();
  return bytes_kept(*model, torch::zeros({1, tokens}, torch::kLong));
}

json with_parameters(json settings, bool causal, int64_t wanted) {
  const double dim = double(causal ? language_of(settings).dim : sequence_of(settings).dim);
  const auto set = [&](int64_t hidden) {
    json& options = settings["model_options"];
    if (causal) {
      options["mlp_ratio"] = double(hidden) / dim;
    } else {
      options["mlp_hidden"] = hidden;
    }
    return parameters_of_settings(settings, causal);
  };
  // Parameters are linear in the width.
  const int64_t one = set(1), each = set(2) - one;
  const double hidden = 1 + double(wanted - one) / double(each);
  if (hidden < 1) {
    fail_usage("A model cannot be made as small as ", wanted,
               " parameters by its MLPs alone: they "
               "are ",
               one, " with the narrowest ones. Choose a smaller width.");
  }
  set(std::llround(hidden));
  return settings;
}

}  // namespace tost
