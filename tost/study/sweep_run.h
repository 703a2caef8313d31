// Carries a sweep out, run after run, and takes it up again where it stopped.
#pragma once

#include <atomic>

#include "tost/study/run_record.h"
#include "tost/study/sweep_plan.h"
#include "tost/train/train_listener.h"

namespace tost {

struct SweepOptions {
  std::filesystem::path out;
  std::vector<std::string> only = {};  // variants to run; empty: all
  bool overwrite = false;              // train again what was made with other settings
  int64_t threads = 0;                 // compute threads of each run; 0: as the settings say
  std::string command = {};            // that makes the sweep, for its page
};

// One run of the plan with what is to be done, or was.
struct SweepStep {
  PlannedRun run;
  RunAction action = RunAction::kTrain;
  std::optional<RunRecord> record;
};

struct SweepResult {
  std::vector<SweepStep> steps;  // the whole plan, with all records there are
  int64_t failed = 0;            // of the runs of this call
  bool interrupted = false;
};

class SweepListener {
 public:
  virtual ~SweepListener() = default;
  // `number` of `count` runs of this call is about to begin.
  virtual void on_run(const SweepStep&, int64_t /*number*/, int64_t /*count*/) {}
  virtual void on_stage(const std::string& /*"pre-training", "training", "scoring"*/) {}
  // `left_s`: until the whole sweep is done; NaN while unknown.
  virtual void on_step(const StepReport&, double /*left_s*/) {}
  virtual void on_done(const SweepStep&) {}
  virtual void on_message(const std::string&) {}
};

// What run_sweep would do. Throws a usage Error for a name in `only` that is not a variant, and as
// choose_action and read_record do.
std::vector<SweepStep> sweep_steps(const SweepSpec& spec, const SweepPlan& plan,
                                   const SweepOptions& options);

// Runs that are done are kept; interrupted ones resume from their checkpoint, to the same bits. Of
// trained ones the score alone is made again if the rule has changed. If a run fails, its message
// is recorded, and the others continue. When `stop` becomes true the running training saves and the
// call returns; the next call resumes it. After every run the files of results are written (see
// sweep_report.h). Throws as sweep_steps, a usage Error while another process runs a sweep in the
// folder, and a data Error when the folder cannot be written.
SweepResult run_sweep(const SweepSpec& spec, const SweepOptions& options, SweepListener& listener,
                      const std::atomic<bool>* stop = nullptr);

}  // namespace tost
