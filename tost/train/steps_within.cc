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

// Ends a trial run when enough of its steps are measured. The first ones are slower: caches and
// kernels are made in them.
class TrialSteps : public TrainListener {
 public:
  TrialSteps(double seconds, const std::atomic<bool>* user) : seconds_(seconds), user_(user) {}

  void on_step(const StepReport& report) override {
    if (user_ != nullptr && *user_) enough = true;
    if (report.step == kUnmeasured) begin_ = Clock::now();
    if (report.step < kUnmeasured + kLeast) return;
    const std::chrono::duration<double> passed = Clock::now() - begin_;
    step_seconds = passed.count() / double(report.step - kUnmeasured);
    if (passed.count() >= seconds_) enough = true;
  }

  double step_seconds = 0;
  std::atomic<bool> enough = false;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int64_t kUnmeasured = 3, kLeast = 5;
  double seconds_;
  const std::atomic<bool>* user_;
  Clock::time_point begin_ = Clock::now();
};

// A new folder below the temporary one, removed with everything in it.
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

}  // namespace

std::optional<int64_t> steps_within(double minutes, const LoopConfig& config, TrainTask& task,
                                    const std::atomic<bool>* stop) {
  const auto begin = std::chrono::steady_clock::now();
  const ScratchFolder folder;
  LoopConfig trial = config;
  trial.max_steps = std::numeric_limits<int32_t>::max();
  trial.sample_every_steps = trial.checkpoint_every_steps = trial.checkpoint_every = 0;
  TrialSteps steps(60 * minutes / 50, stop);
  Trainer(trial, task, folder.path, steps, &steps.enough).train();
  if (stop != nullptr && *stop) return std::nullopt;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  const double left = (60 * minutes - spent.count()) * 14 / 15;
  return std::max<int64_t>(1, std::llround(left / steps.step_seconds));
}

}  // namespace tost
