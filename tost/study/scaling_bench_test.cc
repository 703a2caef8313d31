#include "tost/study/scaling_bench.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "tost/base/error.h"
#include "tost/nn/causal_mixer.h"
#include "tost/nn/token_mixer.h"
#include "tost/ops/caching_allocator.h"
#include "tost/testing/errors.h"

namespace tost {
namespace scaling_bench_test {

ScalingOptions tiny() {
  ScalingOptions options;
  options.dim = 24, options.heads = 4;
  options.tokens = {16, 32, 64};
  options.batch_tokens = 32;
  options.repeat = 2;
  return options;
}

std::string message_of(const ScalingOptions& options, ErrorKind kind) {
  const auto message = testing::error_of(kind, [&] { run_scaling_bench(options, {}); });
  EXPECT_NE(message, "") << "nothing was thrown";
  return message;
}

TEST(ScalingBench, ReadsLengths) {
  EXPECT_EQ(parse_lengths("128,1k,2M"), (std::vector<int64_t>{128, 1024, 2 << 20}));
  EXPECT_EQ(parse_lengths("1024M"), (std::vector<int64_t>{1 << 30}));
  for (const char* bad : {"", "k", "12,", ",12", "0", "-4", "4kk", "4 8", "1025M", "64,32", "8,8",
                          "1.5k", "99999999999999999999"}) {
    EXPECT_THROW(parse_lengths(bad), Error) << bad;
  }
  EXPECT_EQ(default_lengths().front(), 128);
  EXPECT_EQ(default_lengths().back(), 1 << 20);
}

TEST(ScalingBench, MeasuresEveryMixerAtEveryLength) {
  install_caching_allocator();
  for (const bool causal : {false, true}) {
    for (const char* dtype : {"float32", "bfloat16"}) {
      auto options = tiny();
      options.causal = causal;
      options.dtype = dtype;
      options.mixers = causal ? causal_mixer_names() : mixer_names();
      if (*dtype == 'b') std::erase(options.mixers, "tssa-tied");
      size_t seen = 0;
      ScalingWatcher watcher;
      watcher.point = [&](const ScalingPoint&) { ++seen; };
      const auto result = run_scaling_bench(options, watcher);
      EXPECT_EQ(result.points.size(), options.mixers.size() * 2 * 3);
      EXPECT_EQ(seen, result.points.size());
      EXPECT_TRUE(result.stops.empty());
      for (const auto& p : result.points) {
        EXPECT_EQ(p.batch, p.tokens == 16 ? 2 : 1);
        EXPECT_GT(p.ms, 0);
        // At least its output.
        EXPECT_GE(p.bytes, p.batch * p.tokens * 24 * (*dtype == 'b' ? 2 : 4)) << p.mixer;
      }
      EXPECT_EQ(result.memberships.size(), causal ? 3u : 6u);
    }
  }
}

TEST(ScalingBench, MeasuresWholeNetworks) {
  install_caching_allocator();
  auto options = tiny();
  options.mixers = {"tssa", "softmax", "ssm"};
  // Pooled by the mean, and by a class token where positions are learned.
  for (const char* network : {"tost_seq_tiny", "tost_lra_image"}) {
    options.network = network;
    const auto result = run_scaling_bench(options, {});
    EXPECT_EQ(result.points.size(), 3u * 2 * 3);
    for (const auto& p : result.points) EXPECT_GT(p.bytes, p.batch * p.tokens * 4);
    EXPECT_TRUE(result.memberships.empty());
  }
}

TEST(ScalingBench, MembershipStaysWithFloat64) {
  torch::manual_seed(4);
  const auto w = torch::randn({2, 5000, 24});  // more than one block
  const auto temp = torch::ones({4, 1}) * 1.5;
  for (const auto& check : {check_membership(w, temp), check_causal_membership(w, temp)}) {
    EXPECT_EQ(check.tokens, 5000);
    EXPECT_TRUE(check.finite);
    EXPECT_LT(check.pi_error, 1e-5);
    EXPECT_LT(check.y_error, 1e-5);
    EXPECT_GT(check.entropy, 0.9);
    EXPECT_LE(check.entropy, 1 + 1e-9);
    EXPECT_LE(check.least_share, 1);
    EXPECT_GE(check.largest_share, 1);
  }
}

// Logits 1 / n apart leave nothing but a uniform membership; scaled by n they do not.
TEST(ScalingBench, MembershipOfManyTokensNeedsALargerTemp) {
  torch::manual_seed(4);
  const auto w = torch::randn({1, 20'000, 32});
  const auto temp = torch::ones({4, 1});
  EXPECT_GT(check_membership(w, temp).entropy, 0.999999);
  const auto scaled = check_membership(w, temp * temp_for_length(20'000, 8));
  EXPECT_EQ(scaled.temp, 5000);
  EXPECT_GT(scaled.entropy, 0.5);
  EXPECT_LT(scaled.entropy, 0.9);
  EXPECT_LT(scaled.pi_error, 1e-5);
  EXPECT_LT(scaled.y_error, 1e-5);
}

TEST(ScalingBench, MembershipThatIsNotFiniteIsReported) {
  auto w = torch::randn({1, 50, 8});
  w[0][3][2] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(check_membership(w, torch::ones({2, 1})).finite);
}

TEST(ScalingBench, EndsAMixerBeforeWhatItMayNotTake) {
  install_caching_allocator();
  auto options = tiny();
  options.mixers = {"tssa"};
  options.modes = {"forward"};
  options.max_seconds = 1e-9;  // the first length always runs
  auto result = run_scaling_bench(options, {});
  ASSERT_EQ(result.stops.size(), 1u);
  EXPECT_EQ(result.stops[0].tokens, 32);
  EXPECT_NE(result.stops[0].reason.find("a repetition"), std::string::npos);
  EXPECT_EQ(result.points.size(), 1u);

  options.max_seconds = 60;
  options.tokens = {16, 1 << 20};
  options.max_bytes = 10 << 20;
  result = run_scaling_bench(options, {});
  ASSERT_EQ(result.stops.size(), 1u);
  EXPECT_NE(result.stops[0].reason.find("10.0 MiB"), std::string::npos) << result.stops[0].reason;
  EXPECT_EQ(result.points.size(), 1u);
}

TEST(ScalingBench, RefusesAFirstLengthThatDoesNotFit) {
  auto options = tiny();
  options.tokens = {1 << 30};
  options.dim = 768, options.heads = 12;
  options.max_bytes = int64_t{1} << 30;
  const auto message = message_of(options, ErrorKind::kData);
  EXPECT_NE(message.find("1.0 GiB"), std::string::npos) << message;
  EXPECT_NE(message.find("'tssa'"), std::string::npos) << message;
}

TEST(ScalingBench, StopsOnRequest) {
  auto options = tiny();
  std::atomic<bool> stop = false;
  options.stop = &stop;
  ScalingWatcher watcher;
  watcher.membership = [&](const MembershipCheck&) { stop = true; };
  const auto result = run_scaling_bench(options, watcher);
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.points.size(), 10u);  // those of the first length
}

TEST(ScalingBench, RefusesBadOptions) {
  const auto refused = [](auto change) {
    auto options = tiny();
    change(options);
    message_of(options, ErrorKind::kUsage);
  };
  refused([](auto& o) { o.heads = 5; });
  refused([](auto& o) { o.dim = 0; });
  refused([](auto& o) { o.mixers = {"tsa"}; });
  refused([](auto& o) { o.mixers = {}; });
  refused([](auto& o) { o.mixers = {"tssa", "tssa"}; });
  refused([](auto& o) { o.causal = true; });  // xca
  refused([](auto& o) { o.modes = {"backward"}; });
  refused([](auto& o) { o.modes = {}; });
  refused([](auto& o) { o.dtype = "int8"; });
  refused([](auto& o) { o.dtype = "bfloat16", o.mixers = {"tssa-tied"}; });
  refused([](auto& o) { o.network = "tost_seq_tny"; });
  refused([](auto& o) { o.network = "tost_seq_tiny", o.causal = true, o.mixers = {"tssa"}; });
  refused([](auto& o) { o.network = "tost_seq_tiny", o.dtype = "bfloat16"; });
  refused([](auto& o) { o.repeat = 0; });
  refused([](auto& o) { o.batch_tokens = 0; });
  refused([](auto& o) { o.max_seconds = 0; });
  refused([](auto& o) { o.tokens = {}; });
}

// 2 ms and 10 bytes a token for tssa, n²/512 for softmax.
ScalingResult made_up() {
  ScalingResult result;
  for (int64_t n = 256; n <= 1024; n *= 2) {
    const int64_t batch = std::max<int64_t>(1, 1024 / n);
    const double b = double(batch), x = double(n);
    result.points.push_back({"tssa", "forward", n, batch, 2 * x * b, 10 * n * batch});
    result.points.push_back({"softmax", "forward", n, batch, x * x / 512 * b, 0});
  }
  result.memberships.push_back({256, 1, 0.99, 0.9, 1.1, true, 1e-7, 2e-7});
  return result;
}

TEST(ScalingReport, CountsWhatIsOfOneSequence) {
  ScalingOptions options;
  options.mixers = {"tssa", "softmax"};
  options.modes = {"forward"};
  const auto json = scaling_json(options, made_up());
  EXPECT_EQ(json["points"][0]["ms_per_sequence"], 512);
  EXPECT_EQ(json["points"][0]["bytes"], 10240);
  EXPECT_TRUE(json["points"][1]["bytes"].is_null());
  const auto table = scaling_table(options, made_up());
  EXPECT_NE(table.find("         256          512          128\n"), std::string::npos) << table;
  EXPECT_NE(table.find("         256      2.5 KiB            -\n"), std::string::npos) << table;
}

}  // namespace scaling_bench_test
}  // namespace tost
