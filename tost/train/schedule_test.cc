#include "tost/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace tost {
namespace {

TEST(Schedule, StepFormAtKnownPoints) {
  const Schedule s{
      .peak = 1.0, .floor = 0.1, .warmup_start = 0.2, .warmup_steps = 4, .total_steps = 12};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(s, 3), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(s, 4), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(s, 8), 0.55);  // the middle of the cosine
  EXPECT_DOUBLE_EQ(learning_rate(s, 12), 0.1);
  EXPECT_GT(learning_rate(s, 11), 0.1);
}

// The Long Range Arena's text task: base rate 0.05, 8,000 steps of warm-up.
TEST(Schedule, RsqrtFormAtKnownPoints) {
  const double base = 0.05;
  const Schedule s{.form = ScheduleForm::kRsqrt,
                   .peak = base / std::sqrt(8000.0),
                   .floor = 3e-4,
                   .warmup_steps = 8000,
                   .total_steps = 1'000'000};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0);
  EXPECT_NEAR(learning_rate(s, 4000), 0.5 * base / std::sqrt(8000.0), 1e-15);
  EXPECT_NEAR(learning_rate(s, 8000), base / std::sqrt(8000.0), 1e-15);
  EXPECT_NEAR(learning_rate(s, 20000), base / std::sqrt(20000.0), 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate(s, 900'000), 3e-4);
  const Schedule without{.form = ScheduleForm::kRsqrt, .peak = 1, .total_steps = 10};
  EXPECT_DOUBLE_EQ(learning_rate(without, 0), 1);
  EXPECT_DOUBLE_EQ(learning_rate(without, 4), 0.5);
}

TEST(Schedule, WarmupLongerThanTheRunStaysLinear) {
  const Schedule s{.peak = 1.0, .warmup_steps = 10, .total_steps = 5};
  EXPECT_DOUBLE_EQ(learning_rate(s, 4), 0.4);
}

// arXiv 2412.17810, released recipe: 400 epochs, 1e-3 at batch 1024, 5 warm-up epochs from 1e-6,
// floor 1e-5, one epoch of lag.
TEST(Schedule, ImagenetFormLagsOneEpoch) {
  const int64_t n = 1251;
  const Schedule s{.form = ScheduleForm::kEpoch,
                   .peak = 1e-3,
                   .floor = 1e-5,
                   .warmup_start = 1e-6,
                   .warmup_steps = 5 * n,
                   .total_steps = 400 * n,
                   .steps_per_epoch = n,
                   .epoch_lag = 1};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 1e-6);
  EXPECT_DOUBLE_EQ(learning_rate(s, n), 1e-6);
  EXPECT_DOUBLE_EQ(learning_rate(s, 2 * n - 1), 1e-6);
  EXPECT_NEAR(learning_rate(s, 2 * n), 1e-6 + (1e-3 - 1e-6) / 5, 1e-15);
  EXPECT_NEAR(learning_rate(s, 5 * n), 1e-6 + (1e-3 - 1e-6) * 4 / 5, 1e-15);
  // Index 5 is past the warm-up and takes the unmoved cosine: 5/400 of the way, not its start.
  const double expected = 1e-5 + 0.5 * (1e-3 - 1e-5) * (1 + std::cos(std::numbers::pi * 5 / 400));
  EXPECT_NEAR(learning_rate(s, 6 * n), expected, 1e-15);
  EXPECT_LT(learning_rate(s, 6 * n), 1e-3);
  EXPECT_GT(learning_rate(s, 400 * n - 1), 1e-5);
}

TEST(Schedule, FinetuneFormLagsTwoEpochs) {
  const Schedule s{.form = ScheduleForm::kEpoch,
                   .peak = 1e-4,
                   .total_steps = 200,
                   .steps_per_epoch = 1,
                   .epoch_lag = 2};
  const auto cosine = [](double e) { return 0.5e-4 * (1 + std::cos(std::numbers::pi * e / 200)); };
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 1e-4);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1), cosine(-1));
  EXPECT_DOUBLE_EQ(learning_rate(s, 2), cosine(0));
  EXPECT_DOUBLE_EQ(learning_rate(s, 199), cosine(197));
}

}  // namespace
}  // namespace tost
