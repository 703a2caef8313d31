#include "tost/study/sweep_run.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/folder_lock.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/io/crc.h"
#include "tost/kinds/train_run.h"
#include "tost/store/run_layout.h"
#include "tost/study/run_score.h"
#include "tost/study/sweep_report.h"
#include "tost/train/config_form.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using nlohmann::json;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

json stage_settings(const std::optional<json>& settings) {
  return settings ? *settings : json();
}

bool wanted(const SweepOptions& options, const std::string& variant) {
  const auto& only = options.only;
  return only.empty() || std::find(only.begin(), only.end(), variant) != only.end();
}

// The model comes from the first stage's file then.
json without_model(json settings) {
  settings.erase("model");
  return settings;
}

// Of the configuration in a run's folder, but for the threads, which may change on the way.
std::optional<int64_t> config_sum(const fs::path& run) {
  try {
    json config = read_config_file(run / kConfigFile);
    config.erase("threads");
    return crc32c(json_text(config));
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

bool holds_begun(const fs::path& run, const RunRecord& record) {
  const std::optional<int64_t> found = config_sum(run);
  return found && (record.begun == found || record.begun == kBegunUnknown);
}

// How long the rest will take, from the runs of this call that are done.
class TimeLeft {
 public:
  explicit TimeLeft(int64_t trainings) : left_(trainings) {}

  void begin() { start_ = Clock::now(); }
  void end() {
    spent_ += seconds_since(start_);
    ++done_;
    --left_;
  }
  // `run_left` seconds remain of the running one. Runs to come take as long as those before.
  double of(double run_left) const {
    const double now = seconds_since(start_) + run_left;
    const double each = (spent_ + now) / double(done_ + 1);
    return run_left + each * double(std::max<int64_t>(0, left_ - 1));
  }

 private:
  int64_t left_, done_ = 0;
  double spent_ = 0;
  Clock::time_point start_ = Clock::now();
};

// What a killed process spent is not known: until a training ends by itself, the record on the disk
// does not claim to know.
void write_begun(const fs::path& folder, RunRecord record) {
  record.seconds = record.cpu_seconds = std::nullopt;
  write_record(folder, record);
}

// Passes what a training reports on, and remembers that it began and the size of its model.
class StageListener : public TrainListener {
 public:
  StageListener(SweepListener& sweep, const TimeLeft& time, const fs::path& folder,
                RunRecord& record)
      : sweep_(sweep), time_(time), folder_(folder), record_(record) {}

  void on_start(const StartReport& report) override {
    record_.parameters = report.parameters;
    record_.begun = config_sum(folder_);
    write_begun(folder_, record_);
  }
  void on_step(const StepReport& report) override {
    sweep_.on_step(report, time_.of(report.eta_s));
  }
  void on_message(const std::string& message) override { sweep_.on_message(message); }

 private:
  SweepListener& sweep_;
  const TimeLeft& time_;
  const fs::path& folder_;
  RunRecord& record_;
};

class Runner {
 public:
  Runner(const SweepSpec& spec, const SweepPlan& plan, const SweepOptions& options,
         SweepListener& listener, const std::atomic<bool>* stop, TimeLeft& time)
      : kind_(*plan.kind),
        rule_(scoring_rule(spec, *plan.kind)),
        options_(options),
        listener_(listener),
        stop_(stop),
        time_(time) {}

  // False when interrupted. Throws what training and scoring throw.
  bool run(SweepStep& step) {
    const fs::path folder = options_.out / step.run.folder;
    if (step.action == RunAction::kRedo) step.record.reset();
    if (step.action != RunAction::kScore && !train_both(step, folder)) return false;
    listener_.on_stage("scoring");
    RunRecord scored = *step.record;
    if (!score_run(folder, kind_, rule_, scored, stop_)) return false;
    scored.state = RunState::kDone;
    scored.error.clear();
    step.record = std::move(scored);
    write_record(folder, *step.record);
    return true;
  }

 private:
  bool train_both(SweepStep& step, const fs::path& folder) {
    json settings = step.run.settings;
    if (step.run.pretrain) {
      const fs::path first = options_.out / step.run.pretrain_folder;
      if (!train_first(*step.run.pretrain, first)) return false;
      settings = without_model(std::move(settings));
      settings["from"] = final_checkpoint(first).string();
    }
    if (!step.record) step.record = RunRecord();
    step.record->settings = step.run.settings;
    step.record->pretrain = stage_settings(step.run.pretrain);
    listener_.on_stage("training");
    return train_stage(settings, folder, step.action == RunAction::kResume, *step.record);
  }

  // A first stage is a run with a record of its own.
  bool train_first(const json& settings, const fs::path& folder) {
    std::optional<RunRecord> record = read_record(folder);
    const RunAction action = choose_action(record ? &*record : nullptr, settings, json(), json(),
                                           options_.overwrite, folder.string());
    if (action == RunAction::kScore || action == RunAction::kKeep) return true;
    const bool resume = action == RunAction::kResume;
    if (!resume) record = RunRecord();
    record->settings = settings;
    listener_.on_stage("pre-training");
    return train_stage(settings, folder, resume, *record);
  }

  bool train_stage(const json& settings, const fs::path& folder, bool resume, RunRecord& record) {
    const bool begun = resume && holds_begun(folder, record);
    begin(folder, begun, record);
    TrainRun run;
    run.out = folder;
    run.mode = begun ? RunMode::kResume : RunMode::kOverwrite;
    if (!begun) run.values = settings;
    if (options_.threads > 0) run.values["threads"] = options_.threads;
    StageListener stage(listener_, time_, folder, record);
    const std::clock_t cpu = std::clock();
    const TrainResult result = train(run, stage, stop_);
    if (record.seconds) {
      *record.seconds += result.seconds;
      *record.cpu_seconds += double(std::clock() - cpu) / CLOCKS_PER_SEC;
    }
    if (!result.interrupted) record.state = RunState::kTrained;
    write_record(folder, record);
    return !result.interrupted;
  }

  void begin(const fs::path& folder, bool begun, RunRecord& record) {
    make_directories(folder);
    if (!begun) {
      record.seconds = record.cpu_seconds = 0;
      record.begun.reset();
    }
    record.state = RunState::kStarted;
    write_begun(folder, record);
  }

  const RunKind& kind_;
  json rule_;
  const SweepOptions& options_;
  SweepListener& listener_;
  const std::atomic<bool>* stop_;
  TimeLeft& time_;
};

void record_failure(SweepStep& step, const fs::path& folder, const std::string& why) {
  const bool trained = step.record && (step.record->state == RunState::kTrained ||
                                       step.record->state == RunState::kDone);
  if (trained) {
    step.record->state = RunState::kTrained;  // the training is good, the scoring failed
  } else {
    const auto begun = step.record ? step.record->begun : std::nullopt;
    step.record = RunRecord();
    step.record->begun = begun;
    step.record->state = RunState::kFailed;
    step.record->settings = step.run.settings;
    step.record->pretrain = stage_settings(step.run.pretrain);
  }
  step.record->error = why;
  make_directories(folder);
  write_record(folder, *step.record);
}

void check_only(const SweepPlan& plan, const SweepOptions& options) {
  for (const std::string& name : options.only) {
    if (std::find(plan.variants.begin(), plan.variants.end(), name) != plan.variants.end())
      continue;
    fail_usage("There is no variant '", name, "' (known: ", join(plan.variants, ", "), ").",
               did_you_mean(name, plan.variants));
  }
}

}  // namespace

std::vector<SweepStep> sweep_steps(const SweepSpec& spec, const SweepPlan& plan,
                                   const SweepOptions& options) {
  check_only(plan, options);
  const json rule = scoring_rule(spec, *plan.kind);
  std::vector<SweepStep> steps;
  for (const PlannedRun& run : plan.runs) {
    const fs::path folder = options.out / run.folder;
    SweepStep step{run, RunAction::kKeep, read_record(folder)};
    if (wanted(options, run.variant)) {
      step.action =
          choose_action(step.record ? &*step.record : nullptr, run.settings,
                        stage_settings(run.pretrain), rule, options.overwrite, folder.string());
    } else if (step.record && (step.record->settings != run.settings ||
                               step.record->pretrain != stage_settings(run.pretrain))) {
      step.record.reset();  // of another sweep's settings; the file stays
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

SweepResult run_sweep(const SweepSpec& spec, const SweepOptions& options, SweepListener& listener,
                      const std::atomic<bool>* stop) {
  const SweepPlan plan = make_plan(spec);
  SweepResult result;
  result.steps = sweep_steps(spec, plan, options);  // what is wrong shows before a folder is made
  make_directories(options.out);
  const FolderLock lock(options.out);
  result.steps = sweep_steps(spec, plan, options);  // another process may just have ended
  const int64_t count =
      std::count_if(result.steps.begin(), result.steps.end(),
                    [](const SweepStep& step) { return step.action != RunAction::kKeep; });
  if (options.threads > 0) at::set_num_threads(static_cast<int>(options.threads));
  TimeLeft time(count);
  Runner runner(spec, plan, options, listener, stop, time);
  int64_t number = 0;
  for (SweepStep& step : result.steps) {
    if (step.action == RunAction::kKeep) continue;
    if (stop != nullptr && stop->load()) result.interrupted = true;
    if (result.interrupted) break;
    listener.on_run(step, ++number, count);
    time.begin();
    try {
      result.interrupted = !runner.run(step);
    } catch (const std::exception& error) {
      record_failure(step, options.out / step.run.folder, error.what());
      ++result.failed;
    }
    time.end();
    listener.on_done(step);
    write_results(spec, plan, result.steps, options.out, options.command);
  }
  if (number == 0) write_results(spec, plan, result.steps, options.out, options.command);
  return result;
}

}  // namespace tost
