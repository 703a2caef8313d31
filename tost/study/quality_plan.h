// The quality bench: what token mixers learn, on generated tasks and on text, at equal parameters.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/study/sweep_spec.h"

namespace tost {

struct QualityOptions {
  std::vector<std::string> tasks = {};        // empty: all
  std::vector<std::string> contestants = {};  // of either list; empty: all
  // Whose means and spreads are reported.
  std::vector<int64_t> seeds = {0, 1, 2};
  // The one for each task and contestant is chosen by one more run each, of kTuningSeed.
  std::vector<double> learning_rates = {1e-3, 3e-3, 1e-2};
  std::map<std::string, std::string> data = {};        // by task: a path
  nlohmann::json settings = nlohmann::json::object();  // over all others, of every task
  bool quick = false;  // tiny models and few steps, to see that all works
};

// Not among the seeds of reports, so that no reported run took part in the choice.
inline constexpr int64_t kTuningSeed = 1000;

// One task with its contestants as the variants of a sweep.
struct QualityTask {
  std::string name;
  std::string title;
  bool causal = false;
  SweepSpec spec;            // without a learning rate
  std::string tuning_split;  // by which the learning rate is chosen
  // Of a causal contestant after the task's longest sample, in bytes.
  std::map<std::string, int64_t> state_bytes;
};

struct QualityMissing {
  std::string name, why;  // a sentence
};

struct QualityPlan {
  std::vector<QualityTask> tasks;
  std::vector<QualityMissing> missing;
  std::vector<double> learning_rates;
};

// mqar, parity, s3, those of MAD, words, characters (causal); listops, image (bidirectional).
std::vector<std::string> quality_tasks();
// Names of the causal contestants, then of the other mixers, without repetition.
std::vector<std::string> quality_contestants();

// Sizes of the models that settings of training runs ask for, and settings of a given size.

// Parameters of the model of a causal run (text or recall) or of a classifier of sequences. Where
// data decides the vocabulary, that of the preset stands for it.
int64_t parameters_of_settings(const nlohmann::json& settings, bool causal);

// What a causal model keeps of a sample as long as its block.
int64_t state_bytes_of_settings(const nlohmann::json& settings);

// `settings` with the MLP's width that brings parameters_of_settings() next to `wanted`. Throws a
// usage Error where no width does.
nlohmann::json with_parameters(nlohmann::json settings, bool causal, int64_t wanted);

// MLPs are widened or narrowed until every contestant of a task has as many parameters as softmax.
// Throws a usage Error for unknown tasks and contestants, data that is not there or for a task that
// was not asked for, an empty list, and settings that no run can have.
QualityPlan plan_quality(const QualityOptions& options);

// The sweeps of a task: every learning rate with kTuningSeed, then those of `chosen` (by
// contestant) with the seeds. Contestants without a chosen rate are left out.
SweepSpec tuning_sweep(const QualityTask& task, const std::vector<double>& rates);
SweepSpec final_sweep(const QualityTask& task, const std::map<std::string, double>& chosen);
// "softmax" and 0.003: the variant of tuning_sweep().
std::string tuning_variant(const std::string& contestant, double rate);

}  // namespace tost
