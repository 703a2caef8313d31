// What a step costs on the wire: bytes that leave the sockets of a process, against the formulas of
// docs/distributed.md, and the time they take.
#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>

#include "tost/comm/gradient_buckets.h"
#include "tost/comm/processes_test_util.h"

namespace tost {
namespace {

using torch::Tensor;

// Payload that the TCP connections of this process have sent, without segments sent again: a busy
// machine acknowledges late.
int64_t bytes_on_the_wire() {
  int64_t all = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    tcp_info info{};
    socklen_t size = sizeof(info);
    const int file = std::stoi(entry.path().filename().string());
    if (getsockopt(file, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    all += int64_t(info.tcpi_bytes_sent - info.tcpi_bytes_retrans);
  }
  return all;
}

struct StepCost {
  int64_t bytes = 0;
  double seconds = 0;
};

// The mean of some steps. Bytes are counted where none is on its way: a sum needs what every
// process has sent before it.
StepCost measure(Group& group, const std::function<void()>& step) {
  constexpr int64_t kSteps = 5;
  const Tensor nothing = torch::zeros({1});
  step();
  group.sum(nothing);
  const int64_t before = bytes_on_the_wire();
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < kSteps; ++i) step();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  group.sum(nothing);
  const int64_t bytes = bytes_on_the_wire() - before;
  group.sum(nothing);  // a process that leaves takes the others' connections with it
  return {bytes / kSteps, seconds.count() / double(kSteps)};
}

class StepCosts : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Processes, StepCosts, ::testing::Values(2, 4));

TEST_P(StepCosts, SlowBytesAreThoseOfTheFormulas) {
  testing::in_processes({.world = GetParam()}, [](Group& group) {
    const double share = double(group.world() - 1) / double(group.world());
    const Tensor bucket = torch::zeros({2 << 20});  // as a step sends them
    const StepCost one = measure(group, [&] { group.sum(bucket); });
    const double rate = double(one.bytes) / one.seconds;
    if (group.first()) {
      std::printf("%lld processes, a bucket of 8 MB: %.1f ms, %.2f GB/s\n",
                  static_cast<long long>(group.world()), 1e3 * one.seconds, 1e-9 * rate);
    }
    for (const int64_t count : {1 << 20, 1 << 22, 1 << 24}) {
      for (const auto& [name, options, formula] :
           {std::tuple{"gradients", BucketOptions{}, 8 * share},
            {"compressed", BucketOptions{.bf16 = true}, 4 * share},
            {"divided optimiser", BucketOptions{.scatter = true}, 12 * share}}) {
        std::vector<Tensor> parameters;
        for (int64_t i = 0; i < count; i += 1 << 20) {
          parameters.push_back(torch::zeros({1 << 20}, torch::requires_grad()));
        }
        GradientBuckets buckets(group, parameters, options);
        const StepCost cost = measure(group, [&] {
          buckets.begin();
          buckets.finish();
          if (!options.scatter) return;
          for (const auto& each : buckets.buckets()) group.gather_parts(each.flat, each.part);
        });
        const double bytes = formula * double(count);
        // Headers of messages, and one number a parameter tensor.
        EXPECT_NEAR(double(cost.bytes) / bytes, 1, 0.01) << name << " of " << count;
        if (!group.first()) continue;
        std::printf(
            "%-18s %9lld parameters: %10.0f bytes by formula, %10lld sent; %6.1f ms by "
            "formula, %6.1f measured\n",
            name, static_cast<long long>(count), bytes, static_cast<long long>(cost.bytes),
            1e3 * bytes / rate, 1e3 * cost.seconds);
      }
    }
  });
}

}  // namespace
}  // namespace tost
