#include "tost/train/steps_within.h"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <limits>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/train/trainer.h"

namespace tost {
namespace {

constexpr int32_t kNever = std::numeric_limits<int32_t>::max();

// Ends a trial run when enough steps are measured. The first steps, which fill caches, do not
// count.
class TrialSteps : public TrainListener {
 public:
  TrialSteps(double seconds, const std::atomic<bool>* user, const SecondsClock& now)
      : seconds_(seconds), user_(user), now_(now), begin_(now()) {}

  void on_step(const StepReport& report) override {
    if (user_ != nullptr && *user_) enough = true;
    if (report.step == kUnmeasured) begin_ = now_();
    if (report.step < kUnmeasured + kLeast) return;
    const double passed = now_() - begin_;
    step_seconds = passed / double(report.step - kUnmeasured);
    if (passed >= seconds_) enough = true;
  }

  double step_seconds = 0;
  std::atomic<bool> enough = false;

 private:
  static constexpr int64_t kUnmeasured = 3, kLeast = 5;
  double seconds_;
  const std::atomic<bool>* user_;
  const SecondsClock& now_;
  double begin_;
};

// A new temporary folder; the destructor removes the folder and its content.
class ScratchFolder {
 public:
  ScratchFolder() {
    const auto in = temporary_folder();
    std::string name = (in / "tost_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      fail_data("Cannot make a folder in '", in.string(), "': ", system_reason(errno),
                "; set TMPDIR to another one.");
    }
    path = name;
  }
  ~ScratchFolder() { discard(path); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::filesystem::path path;
};

double measure_steps(double seconds, const LoopConfig& config, TrainTask& task,
                     const std::atomic<bool>* stop, const SecondsClock& now) {
  const ScratchFolder folder;
  LoopConfig trial = config;
  trial.max_steps = trial.evaluate_every = kNever;
  trial.sample_every_steps = trial.evaluate_every_steps = 0;
  TrialSteps steps(seconds, stop, now);
  Trainer trainer(trial, task, folder.path, steps, &steps.enough);
  trainer.save_nothing();
  trainer.train();
  return steps.step_seconds;
}

// Estimates the time of a whole evaluation from the batches read within some seconds.
double measure_evaluation(double seconds, const LoopConfig& config, TrainTask& task,
                          const std::atomic<bool>* stop, const SecondsClock& now) {
  DataWatch watch;
  std::atomic<bool> enough = false;
  int64_t reads = 0;
  const double begin = now();
  task.watch_reads([&](std::function<void()> reading) {
    ++reads;
    enough = now() - begin > seconds || (stop != nullptr && *stop);
    if (config.data_timeout <= 0) return reading();
    if (watch.run(std::move(reading), config.data_timeout, [] {})) return;
    throw DataTimeout(ErrorKind::kData, cat("No batch has come for ", config.data_timeout,
                                            " s (data_timeout) in the first evaluation; check the "
                                            "disk or network the data lies on."));
  });
  task.model().eval();
  const bool whole = task.evaluate(&enough).has_value();
  task.watch_reads({});
  const double passed = now() - begin;
  return whole ? passed
               : passed * double(task.evaluation_reads()) / double(std::max(reads, int64_t{1}));
}

struct RunCosts {
  double step = 0, evaluation = 0;  // seconds
  int64_t steps_apart = 1;          // of evaluations, one of which also follows the last step
};

// The largest number of steps, at least one, that take at most `seconds` with their evaluations.
int64_t fitting_steps(double seconds, const RunCosts& costs) {
  const double apart = double(costs.steps_apart);
  const double whole = std::floor(seconds / (apart * costs.step + costs.evaluation));
  const double rest = seconds - whole * (apart * costs.step + costs.evaluation) - costs.evaluation;
  const double steps = whole * apart + std::clamp(std::floor(rest / costs.step), 0.0, apart - 1);
  return std::max<int64_t>(1, std::llround(std::min(steps, double(kNever))));
}

}  // namespace

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::optional<int64_t> steps_within(double minutes, const LoopConfig& config, TrainTask& task,
                                    const std::atomic<bool>* stop, const SecondsClock& now) {
  const double begin = now(), trial = 60 * minutes / 50;
  const auto stopped = [stop] { return stop != nullptr && *stop; };
  RunCosts costs;
  costs.step = measure_steps(trial, config, task, stop, now);
  if (stopped()) return std::nullopt;
  costs.evaluation = measure_evaluation(trial, config, task, stop, now);
  if (stopped()) return std::nullopt;
  costs.steps_apart = config.evaluate_every_steps > 0
                          ? config.evaluate_every_steps
                          : config.evaluate_every * steps_per_epoch(config, task);
  return fitting_steps((60 * minutes - (now() - begin)) * 14 / 15, costs);
}

}  // namespace tost
