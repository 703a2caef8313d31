// Learning-rate schedules: linear warm-up, then half a cosine or the inverse square root of the
// step. Pure functions of the step, so resuming needs no schedule state.
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

// The learning rate of step `step`, 0 <= step < total_steps. kStep: for t < W warmup_start + t/W
// (peak - warmup_start), then with u = (t - W)/(T - W) floor + (peak - floor)(1 + cos(pi u))/2.
// kEpoch: the same rule over whole epochs as the official scripts step it: the value of epoch e is
// that of scheduler index e - epoch_lag (epoch 0: index 0), and the cosine is NOT moved by the
// warm-up, so it runs over all epochs and the rate falls a little when the warm-up ends. With lag 1
// the first two epochs both run at warmup_start (ImageNet script); with lag 2 and no warm-up it is
// the fine-tuning script. kRsqrt: for t < W as kStep, then peak sqrt(W / t), with W at least 1: the
// form of the Long Range Arena's training (arXiv 2011.04006), whose base rate is peak sqrt(W) here.
double learning_rate(const Schedule& schedule, int64_t step);

}  // namespace tost
