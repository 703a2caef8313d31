// Learning-rate schedules: linear warm-up, then half a cosine or the inverse square root of the
// step. A rate is a function of the step, so that a resumed run needs no state of the schedule.
#pragma once

#include <cstdint>

namespace tost {

enum class ScheduleForm {
  kStep,   // moves every optimiser step; the cosine starts where the warm-up ends
  kEpoch,  // the official code's form, see below
  kRsqrt,  // moves every optimiser step; after the warm-up as the inverse square root of the step
};

struct Schedule {
  ScheduleForm form = ScheduleForm::kStep;
  double peak = 1e-3;
  double floor = 0;         // value the cosine ends at; kRsqrt: never below it after the warm-up
  double warmup_start = 0;  // value of the first step when there is a warm-up
  int64_t warmup_steps = 0;
  int64_t total_steps = 1;
  int64_t steps_per_epoch = 1;  // kEpoch only
  int64_t epoch_lag = 1;        // kEpoch only, at least 0
};

// The learning rate of step t, 0 <= t < T = total_steps, with W warm-up steps. The warm-up is
// warmup_start + t/W (peak - warmup_start) for t < W. kStep then has floor + (peak - floor)(1 +
// cos(pi u))/2 with u = (t - W)/(T - W). kEpoch has one rate for each epoch, as in the official
// scripts: that of the index max(0, e - epoch_lag) for epoch e. The cosine of kEpoch runs over all
// epochs, so the rate falls a little when the warm-up ends. Lag 1 gives the ImageNet script, lag 2
// without warm-up the fine-tuning script. kRsqrt then has peak sqrt(W / t) with W at least 1, as
// the Long Range Arena (arXiv 2011.04006), whose base rate is peak sqrt(W).
double learning_rate(const Schedule& schedule, int64_t step);

}  // namespace tost
