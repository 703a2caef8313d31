// Runs of the toy task, and the files they write.
#pragma once

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <vector>

#include "tost/engine/run_layout.h"
#include "tost/train/run_test_util.h"
#include "tost/train/toy_task_test_util.h"
#include "tost/train/trainer.h"

namespace tost::testing {

inline LoopConfig toy_config() {
  LoopConfig c;
  c.epochs = 4;
  c.lr = 0.02;
  c.warmup_epochs = 0.5;
  c.clip = 1;
  c.ema_decay = 0.9;
  c.evaluate_ema = true;
  c.log_every = 4;  // does not divide the six steps of an epoch, so sums cross interruptions
  c.keep_last = 100;
  return c;
}

// The log without what depends on the clock.
inline std::vector<nlohmann::json> log_lines(const std::filesystem::path& run) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(run / kMetricsFile);
  for (std::string line; std::getline(file, line);) {
    nlohmann::json object = nlohmann::json::parse(line);
    object.erase("rows_per_s");
    object.erase("wait_share");
    lines.push_back(object);
  }
  return lines;
}

// All tensors; with `state` also the loop's state.
inline void expect_same_checkpoint(const std::filesystem::path& a, const std::filesystem::path& b,
                                   bool state = true) {
  const Checkpoint x = newest_checkpoint(a), y = newest_checkpoint(b);
  if (state) {
    EXPECT_EQ(x.state, y.state);
  }
  ASSERT_EQ(x.parts.size(), y.parts.size());
  for (size_t i = 0; i < x.parts.size(); ++i) {
    ASSERT_EQ(x.parts[i].tensors.size(), y.parts[i].tensors.size());
    for (const auto& [name, tensor] : x.parts[i].tensors) {
      EXPECT_TRUE(torch::equal(tensor, y.parts[i].tensors.at(name)))
          << x.parts[i].file << " " << name;
    }
  }
}

// One thread: for tensors this small a second one only waits.
inline TrainResult run_toy(const std::filesystem::path& folder, ToyTask& task, const LoopConfig& c,
                           const std::atomic<bool>* stop = nullptr) {
  at::set_num_threads(1);
  TrainListener listener;
  Trainer trainer(c, task, folder, listener, stop);
  trainer.resume();
  return trainer.train();
}

}  // namespace tost::testing
