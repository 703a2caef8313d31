// Several processes on GPUs, real or stood in for: what they exchange, and whole training runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "tests/device_test_util.h"
#include "tests/testing/errors.h"
#include "tests/testing/stand_in_gpu.h"
#include "tost/base/error.h"
#include "tost/comm/batch_norms.h"
#include "tost/comm/gradient_buckets.h"
#include "tost/comm/processes_test_util.h"
#include "tost/comm/stand_in_nccl_test_util.h"
#include "tost/kinds/train_run.h"
#include "tost/ops/device.h"

namespace tost {
namespace device_processes_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::in_processes;
using testing::StandInNccl;
using torch::Tensor;

// Through the host's memory; over a backend in the place of NCCL; over NCCL itself, with a GPU for
// each process.
const std::vector<std::string> kWays{"gloo", "standin", "nccl"};

bool can_go(const std::string& way) {
  return way != "nccl" || (built_with_nccl() && gpu_count() >= 2);
}

#define TOST_TEST_WAY(way)                                                     \
  if (!testing::gpu_for_tests() || !can_go(way)) {                             \
    GTEST_SKIP() << "needs a GPU, and NCCL with two: run this where they are"; \
  }

void choose(const std::string& way) {
  if (way == "standin") gpu_backend() = &testing::open_stand_in_nccl;
}

torch::Device connected(Group& group, const std::string& way) {
  choose(way);
  const torch::Device gpu(torch::kCUDA, c10::DeviceIndex(group.local_rank()));
  if (way != "gloo") group.connect_gpus(gpu);
  return gpu;
}

class Ways : public ::testing::TestWithParam<std::string> {
 protected:
  static void in_two(const std::function<void(Group&, torch::Device)>& body) {
    in_processes({.one_gpu = GetParam() != "nccl"}, [&](Group& group) {
      const torch::Device gpu = connected(group, GetParam());
      const int64_t before = StandInNccl::calls();
      body(group, gpu);
      EXPECT_EQ(StandInNccl::calls() > before, GetParam() == "standin");
    });
  }
};
INSTANTIATE_TEST_SUITE_P(OnGpus, Ways, ::testing::ValuesIn(kWays), testing::test_name);

TEST_P(Ways, GiveWhatTheyGiveOnTheCpu) {
  TOST_TEST_WAY(GetParam());
  in_two([](Group& group, torch::Device gpu) {
    for (const auto type : {torch::kFloat, torch::kDouble, torch::kLong, torch::kBFloat16}) {
      torch::manual_seed(group.rank());
      const Tensor x = (10 * torch::rand({8})).to(type), y = x.to(gpu);
      Tensor part = torch::zeros({4}, x.options()), there = part.to(gpu);
      group.begin_scatter_sum(part, x)();
      group.begin_scatter_sum(there, y)();
      EXPECT_TRUE(there.cpu().equal(part));
      group.gather_parts(y, there);
      group.sum(x);
      EXPECT_TRUE(y.is_cuda() && y.cpu().equal(x));
      EXPECT_TRUE(group.gather(y).cpu().equal(group.gather(x)));
    }
    const Tensor count = torch::full({}, 5 + group.rank(), torch::kLong).to(gpu);
    group.broadcast(count);
    EXPECT_EQ(count.item<int64_t>(), 5);
    const auto alone = group.split("alone", group.rank()), both = group.split("both", 0);
    const auto wait = both->begin_sum(count);
    alone->sum(count.clone());
    wait();
    EXPECT_EQ(count.item<int64_t>(), 10);
  });
}

TEST_P(Ways, SumGradientsAsOnTheCpu) {
  TOST_TEST_WAY(GetParam());
  in_two([](Group& group, torch::Device gpu) {
    for (const BucketOptions options : {BucketOptions{.bytes = 64},
                                        {.bytes = 1 << 20, .bf16 = true},
                                        {.bytes = 64, .scatter = true}}) {
      std::vector<std::vector<Tensor>> gradients;
      std::vector<double> norms;
      for (const torch::Device device : {torch::Device(torch::kCPU), gpu}) {
        torch::manual_seed(1);
        std::vector<Tensor> parameters;
        for (const int64_t rows : {5, 3, 40}) {
          parameters.push_back(torch::randn({rows, 4}).to(device).requires_grad_());
        }
        GradientBuckets buckets(group, parameters, options);
        for (int step = 0; step < 2; ++step) {
          buckets.begin();
          buckets.arm();
          Tensor loss = torch::zeros({}, device);
          for (const Tensor& p : parameters) loss = loss + (p.square().sum() * (group.rank() + 1));
          loss.backward();
          buckets.finish();
        }
        norms.push_back(buckets.norm());
        gradients.emplace_back();
        for (const auto& bucket : buckets.buckets()) gradients.back().push_back(bucket.part.cpu());
      }
      EXPECT_GT(norms[0], 1);
      EXPECT_NEAR(norms[0], norms[1], 1e-6 * norms[0]);
      for (size_t i = 0; i < gradients[0].size(); ++i) {
        EXPECT_TRUE(torch::allclose(gradients[0][i], gradients[1][i])) << i;
      }
    }
  });
}

TEST_P(Ways, NormaliseSharedBatchesAsOnTheCpu) {
  TOST_TEST_WAY(GetParam());
  in_two([](Group& group, torch::Device gpu) {
    torch::manual_seed(group.rank());
    const Tensor x = torch::randn({3, 4, 2});
    std::vector<std::vector<Tensor>> found;
    for (const torch::Device device : {torch::Device(torch::kCPU), gpu}) {
      const Tensor z = x.clone().to(device).requires_grad_(), ones = torch::ones({4}, device);
      BatchMoments moments;
      const Tensor y = synced_batch_norm(group, z, ones, ones, 1e-5, moments);
      y.square().sum().backward();
      found.push_back({moments.mean, moments.variance, y.detach(), z.grad()});
    }
    for (size_t i = 0; i < found[0].size(); ++i) {
      EXPECT_TRUE(torch::allclose(found[0][i], found[1][i].cpu(), 1e-5, 1e-5)) << i;
    }
  });
}

using Call = std::function<void(Group&, torch::Device)>;

void sum_on(Group& group, torch::Device gpu) {
  group.sum(torch::ones({4}, gpu));
}

// Once it is connected.
class NeverDone : public StandInNccl {
 public:
  using StandInNccl::StandInNccl;
  struct Work : c10d::Work {
    bool isCompleted() override { return false; }
  };
  WorkPtr allreduce(std::vector<at::Tensor>& x, const c10d::AllreduceOptions& how) override {
    if (x[0].numel() == 1) return StandInNccl::allreduce(x, how);
    return c10::make_intrusive<Work>();
  }
};

void expect_lost(const Group& group, const std::string& begin, const std::function<void()>& work) {
  try {
    work();
    FAIL() << "must throw";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find(begin), 0u) << error.what();
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_EQ(dynamic_cast<const ReportedElsewhere*>(&error) == nullptr, group.first());
  }
}

TEST(LostOnGpus, IsNamedWhenKilled) {
  TOST_TEST_WAY("standin");
  in_processes({.world = 3, .codes = {0, -SIGKILL, 0}, .one_gpu = true}, [](Group& group) {
    const torch::Device gpu = connected(group, "standin");
    sum_on(group, gpu);
    if (group.rank() == 1) raise(SIGKILL);
    expect_lost(group, "Rank 1 of 3 was lost", [&] {
      for (int i = 0; i < 100; ++i) sum_on(group, gpu);
    });
  });
}

// Rank 1 does nothing more, and the others do `work`.
void expect_hang_named(Group& group, const std::function<void()>& work) {
  group.set_timeout(2);
  if (group.rank() == 1) {
    std::this_thread::sleep_for(std::chrono::seconds(20));
    raise(SIGKILL);
  }
  expect_lost(group, "Rank 1 of 3 was lost (nothing came within 2 s)", work);
}

// The GPU of one of those that are left waits for it for ever, and nothing tells it.
TEST(LostOnGpus, IsNamedAfterTheTimeoutWhenItHangs) {
  TOST_TEST_WAY("standin");
  in_processes({.world = 3, .codes = {0, -SIGKILL, 0}, .one_gpu = true}, [](Group& group) {
    gpu_backend() = [](const BackendPlace& place) -> BackendPtr {
      return c10::make_intrusive<NeverDone>(place);
    };
    const torch::Device gpu(torch::kCUDA, 0);
    group.connect_gpus(gpu);
    expect_hang_named(group, [&] { sum_on(group, gpu); });
  });
}

TEST(LostOnGpus, IsNamedWhenItDoesNotConnect) {
  TOST_TEST_WAY("standin");
  in_processes({.world = 3, .codes = {0, -SIGKILL, 0}, .one_gpu = true}, [](Group& group) {
    gpu_backend() = [](const BackendPlace& place) -> BackendPtr {
      struct Waits : StandInNccl {
        using StandInNccl::StandInNccl;
        WorkPtr allreduce(std::vector<at::Tensor>&, const c10d::AllreduceOptions&) override {
          while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
        }
      };
      return c10::make_intrusive<Waits>(place);
    };
    group.any(true);
    expect_hang_named(group, [&] { group.connect_gpus(torch::Device(torch::kCUDA, 0)); });
  });
}

TEST(LostOnGpus, ReportsWhyNcclCannotConnect) {
  TOST_TEST_WAY("standin");
  in_processes({.one_gpu = true}, [](Group& group) {
    gpu_backend() = [](const BackendPlace& place) -> BackendPtr {
      TORCH_CHECK(place.rank == 0, "NCCL error: invalid usage");
      return testing::open_stand_in_nccl(place);
    };
    const std::string message = testing::data_error_of([&] {
      try {
        group.connect_gpus(torch::Device(torch::kCUDA, 0));
      } catch (const Error& error) {
        if (group.rank() == 1) group.leave(error);
        throw;
      }
    });
    EXPECT_NE(
        message.find("NCCL cannot connect the GPUs (NCCL error: invalid usage); NCCL_DEBUG=INFO"),
        std::string::npos)
        << message;
  });
}

struct Refusal {
  std::string name;
  json more;
  std::string expected;
  bool one_gpu = true;
};

class RefusedOnGpus : public ::testing::TestWithParam<Refusal> {};
INSTANTIATE_TEST_SUITE_P(
    OnGpus, RefusedOnGpus,
    ::testing::Values(
        Refusal{
            "more_processes", {}, " of its machine (LOCAL_RANK) has no GPU: torch sees ", false},
        Refusal{"one_gpu_for_all", {{"device", "cuda:0"}}, "so device cannot be cuda:0; set it to"},
        Refusal{"nccl", {{"peer_backend", "nccl"}}, "peer_backend nccl needs a build with NCCL"}),
    [](const auto& info) { return info.param.name; });

TEST_P(RefusedOnGpus, InOneSentence) {
  TOST_TEST_WAY("gloo");
  if (!GetParam().one_gpu && gpu_count() > 3) GTEST_SKIP() << "there are GPUs for all processes";
  in_processes(
      {.world = GetParam().one_gpu ? 2 : 4, .one_gpu = GetParam().one_gpu}, [](Group& group) {
        gpu_backend() = nullptr;
        const fs::path out = fs::path(std::getenv("TOST_TEST_STORE")).parent_path() / "run";
        json values = testing::vision_values("cuda");
        values["accumulate"] = group.world();
        if (!GetParam().more.is_null()) values.update(GetParam().more);
        TrainListener listener;
        const std::string message = testing::usage_error_of(
            [&] { train({.out = out, .values = values, .group = &group}, listener); });
        EXPECT_NE(message.find(GetParam().expected), std::string::npos) << message;
        EXPECT_FALSE(fs::exists(out));
      });
}

struct Case {
  std::string name;
  json more;  // settings of the run in several processes
  bool text = false;
  double limit = 0.02;
};
void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

std::vector<std::pair<Case, std::string>> cases() {
  const std::vector<Case> runs{
      {"pictures", json::object()},
      {"pictures_in_shards", {{"shard_optimizer", true}}},
      {"text", {{"accumulate", 2}}, true},
      {"text_compressed", {{"compress_gradients", true}}, true, 0.1},
      {"text_divided", {{"sequence_parallel", 2}, {"recompute", "block"}}, true}};
  std::vector<std::pair<Case, std::string>> all;
  for (const Case& one : runs) {
    for (const std::string& way : kWays) all.emplace_back(one, way);
  }
  return all;
}

class RunsOnGpus : public ::testing::TestWithParam<std::pair<Case, std::string>> {};
INSTANTIATE_TEST_SUITE_P(OnGpus, RunsOnGpus, ::testing::ValuesIn(cases()), [](const auto& info) {
  return cat(info.param.first.name, "_", info.param.second);
});

json values_of(const Case& one, const fs::path& dir, Group& group) {
  const testing::TempDir folder;
  json values =
      one.text ? testing::language_values(folder, "cuda") : testing::vision_values("cuda");
  // Shared batches draw theirs for each part.
  for (const char* noise : {"dropout", "drop_path"}) {
    if (values.contains(noise)) values[noise] = 0;
  }
  if (one.text) {
    const fs::path text = dir / "text.txt";  // the same in all processes
    group.together([&] {
      if (group.first()) fs::copy_file(values["data"].get<std::string>(), text);
    });
    values["data"] = text.string();
    values.update({{"batch", 4}, {"mixer", "means"}, {"accumulate", 1}});
  }
  if (one.more.contains("accumulate")) values["accumulate"] = one.more["accumulate"];
  return values;
}

// The first half and the second as two runs.
TEST_P(RunsOnGpus, SlowTrainAsOneProcess) {
  const auto& [one, way] = GetParam();
  TOST_TEST_WAY(way);
  in_processes({.one_gpu = way != "nccl"}, [&](Group& group) {
    choose(way);
    const fs::path dir = fs::path(std::getenv("TOST_TEST_STORE")).parent_path();
    const json values = values_of(one, dir, group);
    const auto run = [&](const char* name, RunMode mode, const json& settings, Group* shared,
                         int64_t stop) {
      testing::StopAt listener(stop);
      TrainRun run{.out = dir / name, .mode = mode, .values = settings, .group = shared};
      run.noise_by_batch = true;
      const TrainResult result = train(run, listener, &listener.stop);
      return std::pair(result, listener.messages);
    };
    json shared = values;
    shared.update(one.more);
    shared["peer_backend"] = way == "gloo" ? "gloo" : "nccl";
    const auto [half, messages] = run("shared", RunMode::kNew, shared, &group, 3);
    EXPECT_TRUE(half.interrupted);
    const auto [result, more] = run("shared", RunMode::kResume, json::object(), &group, -1);
    EXPECT_EQ(result.step, result.total_steps);
    EXPECT_EQ(StandInNccl::calls() > 0, way == "standin");
    if (!group.first()) return;
    EXPECT_EQ(std::ranges::any_of(messages,
                                  [](const std::string& message) {
                                    return message.starts_with(
                                        "Tensors on GPUs go from process to process through");
                                  }),
              way == "gloo");
    const auto [alone, none] = run("alone", RunMode::kNew, values, nullptr, -1);
    const auto loss = [](const TrainResult& of) { return of.last_eval.at("loss").get<double>(); };
    EXPECT_NEAR(loss(result), loss(alone), one.limit * loss(alone));
    if (!one.more.contains("shard_optimizer")) {
      testing::expect_close_runs(dir / "shared", dir / "alone", one.limit);
    }
  });
}

}  // namespace device_processes_test
}  // namespace tost
