// The trainer's reactions to bad steps and missing batches.
#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/train/trainer.h"

namespace tost {
namespace {

using nlohmann::json;

constexpr char kAdvice[] = "lower lr, lengthen the warm-up or set clip, and check the data.";

// Converts a number to JSON, as a text if the number is not finite.
json number(double value) {
  return std::isfinite(value) ? json(value) : json(cat(value));
}

}  // namespace

bool Trainer::skip_step(const BadStep& bad, double lr) {
  GuardState& guards = state_.guards;
  const bool skips = config_.outlier_z > 0;
  if (skips) {
    ++guards.skipped;
    ++guards.skipped_in_row;
    start_->restore_buffers();
    report_skipped(bad, lr);
    if (guards.skipped_in_row <= config_.outlier_limit) return true;
  }
  const std::string found = describe(bad);
  const int64_t in_row = guards.skipped_in_row;
  const std::string passed =
      in_row == 1 ? "1 step was skipped" : cat(in_row, " steps in a row were skipped");
  if (roll_back(state_.step + 1, skips ? cat(passed, ", at the last ", found) : found)) {
    return false;
  }
  const std::string rest = cat(" (learning rate ", lr, stop_notice());
  if (skips) {
    fail_data("At step ", state_.step + 1, ", ", passed, ", more than outlier_limit ",
              config_.outlier_limit, "; at the last ", found, rest, kAdvice);
  }
  fail_data("The ", bad.what, " became ", bad.value, " at step ", state_.step + 1, rest, kAdvice);
}

// After "(learning rate ...".
std::string Trainer::stop_notice() {
  const int64_t rollbacks = state_.guards.rollbacks;
  return cat(
      rollbacks > 0 ? cat(" and ", rollbacks, rollbacks == 1 ? " rollback" : " rollbacks") : "",
      "); training stopped and ",
      has_checkpoint() ? "the last checkpoint is kept" : "there is no checkpoint yet", ": ");
}

// Checks the values that can become infinite or NaN although gradients are finite, such as
// statistics of batch norm.
bool Trainer::state_is_finite() {
  std::optional<std::string> bad = first_not_finite(checkpoint());
  if (group_ != nullptr) {
    for (const std::string& found : group_->gather_texts(bad.value_or(""))) {
      if (!found.empty()) bad = found;
    }
  }
  if (!bad) return true;
  if (roll_back(state_.step, *bad)) return false;
  fail_data("After step ", state_.step, ", ", *bad, " (learning rate ", rate(), stop_notice(),
            kAdvice);
}

void Trainer::report_skipped(const BadStep& bad, double lr) {
  log_->add_event("skipped_step", state_.step + 1,
                  {{"what", bad.what},
                   {"value", number(bad.value)},
                   {"z", bad.z ? number(*bad.z) : json()},
                   {"lr", lr}});
  listener_.on_message(cat("Step ", state_.step + 1, " is skipped: ", describe(bad), "."));
}

// Restores the checkpoint, with a lower rate, and skips the batches up to the failed step. Writes
// the checkpoint again, so that a run that is killed now does not have to fail again.
bool Trainer::roll_back(int64_t failed, const std::string& reason) {
  const GuardState before = state_.guards;
  if (before.rollbacks >= config_.rollbacks || before.rollback_step < 0 || !has_checkpoint())
    return false;
  if (!restore_newest(before.rollback_step)) return false;
  if (shared_) send_state();
  GuardState& now = state_.guards;
  now.skipped = before.skipped;
  now.skipped_in_row = 0;
  now.rollbacks = before.rollbacks + 1;
  now.lr_factor = std::max(before.lr_factor * config_.rollback_lr, 1e-300);
  now.data_ahead = before.data_ahead + failed - state_.step;
  in_epoch_ = best_is_new_ = false;
  open_log();
  log_->add_event("rollback", state_.step,
                  {{"from", failed},
                   {"to", state_.step},
                   {"lr", rate()},
                   {"lr_factor", now.lr_factor},
                   {"reason", reason}});
  listener_.on_message(cat("At step ", failed, ", ", reason, ": back to step ", state_.step,
                           ", past the batches since, with learning rates times ", now.lr_factor,
                           " (rollback ", now.rollbacks, " of ", config_.rollbacks, ")."));
  write_checkpoint(/*in_background=*/false);
  if (store_) store_->remove_after(state_.step);
  return true;
}

void Trainer::load_batch(bool starts_epoch) {
  TrainTask& task = task_;
  const auto start = [&task, starts_epoch, epoch = data_step() / steps_per_epoch_,
                      first = data_step() % steps_per_epoch_ * config_.accumulate] {
    if (starts_epoch) task.start_epoch(epoch, first);
  };
  if (config_.data_timeout <= 0) {
    start();
  } else {
    const auto load = [&task, start] {
      start();
      task.fetch();
    };
    if (!read_in_time(load)) end_waiting(/*in_step=*/true);
  }
  if (!starts_epoch) return;
  timer_.restart(task_.wait_seconds());
  in_epoch_ = true;
}

bool Trainer::read_in_time(std::function<void()> reading) {
  if (!watch_) watch_ = std::make_unique<DataWatch>();
  return watch_->run(std::move(reading), config_.data_timeout, [this] { report_wait(); });
}

// Restores the weights of the model before anything is saved.
std::optional<json> Trainer::scored(const StateDict& average,
                                    const std::function<std::optional<json>()>& score) {
  struct TimedOut {};
  struct Watched {
    ~Watched() { task.watch_reads({}); }
    TrainTask& task;
  } watched{task_};
  if (config_.data_timeout > 0) {
    task_.watch_reads([this](std::function<void()> reading) {
      if (!read_in_time(std::move(reading))) throw TimedOut();
    });
  }
  try {
    const EvaluationWeights weights(task_.model(), average);
    return score();
  } catch (const TimedOut&) {
  }
  end_waiting(/*in_step=*/false);
}

// Must not throw: another thread uses the task.
void Trainer::report_wait() {
  ++data_waits_;
  const double seconds = config_.data_timeout / 2;
  listener_.on_message(cat("No batch has come for ", seconds, " s after step ", state_.step,
                           "; after as long again the run is saved and ends."));
  try {
    log_->add_event("data_wait", state_.step, {{"seconds", seconds}});
  } catch (const Error& error) {
    listener_.on_message(error.what());
  }
}

// Uses only the model of the task from here on, because the reading thread still runs.
void Trainer::end_waiting(bool in_step) {
  std::string state = cat("the run is saved after step ", state_.step);
  if (group_ != nullptr) {
    throw DataTimeout(ErrorKind::kData, cat("No batch has come for ", config_.data_timeout,
                                            " s (data_timeout) after "
                                            "step ",
                                            state_.step,
                                            "; check the disk or network the data lies on, and "
                                            "resume from the newest checkpoint with --resume."));
  }
  try {
    log_->add_event("data_timeout", state_.step, {{"seconds", config_.data_timeout}});
    if (in_step) start_->restore_buffers();
    if (in_step) start_->restore_generators();
    if (unsaved_) {
      const std::optional<std::string> bad = first_not_finite(checkpoint());
      if (bad) fail_data(*bad);
      write_checkpoint(/*in_background=*/false);
    }
    saver_->wait();
    if (state_.step == 0) state = "no step was done yet";
  } catch (const Error& error) {
    state = cat("the run could not be saved (", error.what(), ")");
  }
  throw DataTimeout(
      ErrorKind::kData,
      cat("No batch has come for ", config_.data_timeout, " s (data_timeout) ",
          in_step ? cat("at step ", state_.step + 1)
                  : cat("in the evaluation after step ", state_.step),
          "; ", state, ": check the disk or network the data lies on, and resume with --resume."));
}

}  // namespace tost
