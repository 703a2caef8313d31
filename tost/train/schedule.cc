#include "tost/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tost {
namespace {

double warmup(const Schedule& s, double position, double length) {
  return s.warmup_start + (s.peak - s.warmup_start) * position / length;
}

// Half a cosine. With a lag of two epochs u is negative once, and the cosine, an even function,
// gives the same value as torch.
double half_cosine(const Schedule& s, double u) {
  return s.floor + 0.5 * (s.peak - s.floor) * (1 + std::cos(std::numbers::pi * u));
}

double by_step(const Schedule& s, int64_t step) {
  if (step < s.warmup_steps) return warmup(s, double(step), double(s.warmup_steps));
  if (s.total_steps <= s.warmup_steps) return s.peak;
  return half_cosine(s, double(step - s.warmup_steps) / double(s.total_steps - s.warmup_steps));
}

double by_epoch(const Schedule& s, int64_t step) {
  const int64_t epoch = step / s.steps_per_epoch;
  const double index = epoch == 0 ? 0.0 : double(epoch - s.epoch_lag);
  const double warmup_epochs = double(s.warmup_steps) / double(s.steps_per_epoch);
  const double epochs = double(s.total_steps) / double(s.steps_per_epoch);
  if (s.warmup_steps > 0 && index < warmup_epochs)
    return warmup(s, std::fmax(index, 0.0), warmup_epochs);
  return half_cosine(s, index / epochs);
}

double by_rsqrt(const Schedule& s, int64_t step) {
  if (step < s.warmup_steps) return warmup(s, double(step), double(s.warmup_steps));
  const double length = double(std::max<int64_t>(1, s.warmup_steps));
  return std::max(s.floor, s.peak * std::sqrt(length / std::max(length, double(step))));
}

}  // namespace

double learning_rate(const Schedule& schedule, int64_t step) {
  switch (schedule.form) {
    case ScheduleForm::kEpoch:
      return by_epoch(schedule, step);
    case ScheduleForm::kRsqrt:
      return by_rsqrt(schedule, step);
    case ScheduleForm::kStep:
      break;
  }
  return by_step(schedule, step);
}

}  // namespace tost
