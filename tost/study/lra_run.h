// Carries the sweeps of a Long Range Arena plan out, one after the other.
#pragma once

#include "tost/study/lra_table.h"
#include "tost/study/sweep_run.h"

namespace tost {

struct LraResult {
  LraTable table;
  int64_t failed = 0;  // runs of this call
  bool interrupted = false;
};

// What run_lra would do, by task.
std::map<std::string, std::vector<SweepStep>> lra_steps(const LraPlan& plan,
                                                        const SweepOptions& options);

// Each task's sweep in a folder of its name below options.out (see run_sweep), and after each the
// table over all: lra.md, lra.csv, lra.json and index.html. What is done is kept, so that the same
// call goes on where it was stopped. Throws as run_sweep; settings that no run can have show before
// the first begins.
LraResult run_lra(const LraPlan& plan, const std::string& title, const SweepOptions& options,
                  SweepListener& listener, const std::atomic<bool>* stop = nullptr);

}  // namespace tost
