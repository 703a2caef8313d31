// The Long Range Arena (arXiv 2011.04006) as sweeps: one a task, each over mixers and seeds.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/study/sweep_spec.h"

namespace tost {

// listops, text, retrieval, image, pathfinder, pathx: the order of every table.
const std::vector<std::string>& lra_tasks();
std::string lra_title(const std::string& task);  // "ListOps"

struct LraOptions {
  std::vector<std::string> tasks = {};  // empty: all
  std::string protocol = "google";      // or s4: which recipes, and what the data is cut to
  bool one = false;                     // the recipe `lra` for every task instead, on that data
  std::vector<std::string> mixers = {"tssa", "softmax", "linear", "ssm", "none"};
  std::vector<int64_t> seeds = {0, 1, 2};
  std::map<std::string, std::string> data = {};        // by task: a path, or a generated set
  bool reduced = false;                                // what one core does in minutes a run
  nlohmann::json settings = nlohmann::json::object();  // over all others, of every task
};

struct LraTask {
  std::string name;
  SweepSpec spec;
};

struct LraMissing {
  std::string name, why;  // a sentence
};

struct LraPlan {
  std::vector<LraTask> tasks;       // those that can be run, in the order of lra_tasks()
  std::vector<LraMissing> missing;  // of those that were asked for
  std::string reference;            // the mixer that parameters are compared with
};

// The settings of a reduced task, over those of its recipe: width, depth, lengths and steps. Null
// for a task that is not reduced.
nlohmann::json lra_reduction(const std::string& task);

// "google protocol", or what `one` makes of it: for titles.
std::string lra_protocol_title(const LraOptions& options);

// Tasks without data are missing; a validation split is scored where `data` has no test split.
// Throws a usage Error for unknown tasks, mixers and protocols, data for a task that was not asked
// for, and where no task is left; a data Error for data that is not there.
LraPlan plan_lra(const LraOptions& options);

}  // namespace tost
