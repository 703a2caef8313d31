// The order of a schedule's steps, and which results may be streamed.
#include "tost/kernels/schedule.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace tost::kernels {
namespace {

using Steps = std::vector<std::pair<int64_t, int64_t>>;  // sample, part

// Notes the steps of two phases, the second backwards, by the half of the tasks they are in.
struct Recorder {
  void there(int64_t sample, int64_t part) const { seen[half][0].emplace_back(sample, part); }
  void back(int64_t sample, int64_t part) const { seen[half][1].emplace_back(sample, part); }

  mutable int half = 0;
  mutable Steps seen[2][2];  // of a half and a phase
};

Recorder record(int64_t batch, int64_t parts, int64_t sample_bytes) {
  const Recorder recorder;
  const Phase<Recorder> phases[] = {{parts, &Recorder::there},
                                    {.parts = parts, .step = &Recorder::back, .backwards = true}};
  run_phases(
      recorder, phases, batch, sample_bytes,
      [&](int64_t tasks, function_ref<void(int64_t, int64_t)> body) {
        recorder.half = 0;
        body(0, tasks / 2);
        recorder.half = 1;
        body(tasks / 2, tasks);
      },
      /*threads=*/2);
  return recorder;
}

TEST(Schedule, APhaseRunsBackwardsOverThePartOfItsThread) {
  const int64_t parts = 5;
  for (const int64_t batch : {1, 3}) {  // too few samples for one a thread
    const Recorder r = record(batch, parts, /*sample_bytes=*/1);
    int64_t steps = 0;
    for (const auto& half : r.seen) {
      EXPECT_EQ(half[1], Steps(half[0].rbegin(), half[0].rend())) << batch;
      steps += static_cast<int64_t>(half[0].size());
    }
    EXPECT_EQ(steps, batch * parts);
  }
}

TEST(Schedule, ASampleOfOneThreadRunsBackwardsToo) {
  const Recorder r = record(/*batch=*/4, /*parts=*/3, /*sample_bytes=*/1);
  EXPECT_EQ(r.seen[0][0], Steps({{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}}));
  EXPECT_EQ(r.seen[0][1], Steps({{0, 2}, {0, 1}, {0, 0}, {1, 2}, {1, 1}, {1, 0}}));
}

TEST(Schedule, StreamedRunsCoverWholeCacheLines) {
  alignas(64) const char memory[128] = {};
  EXPECT_TRUE(fills_lines(memory, 3072, 3072));
  EXPECT_TRUE(fills_lines(memory + 64, 64, 64));
  EXPECT_FALSE(fills_lines(memory + 32, 3072, 3072));  // every line is written in two runs
  EXPECT_FALSE(fills_lines(memory, 3072 + 32, 3072));
  EXPECT_FALSE(fills_lines(memory, 3072, 32));
  EXPECT_FALSE(fills_lines(memory, 3072, 96));
}

}  // namespace
}  // namespace tost::kernels
