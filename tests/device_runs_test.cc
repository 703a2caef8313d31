// What the commands do, on a GPU, real or stood in for.
#include <gtest/gtest.h>

#include "tests/device_test_util.h"
#include "tests/testing/errors.h"
#include "tests/testing/stand_in_gpu.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/text.h"
#include "tost/engine/generate.h"
#include "tost/engine/language_scores.h"
#include "tost/engine/session_file.h"
#include "tost/io/shapes.h"
#include "tost/kinds/language/engine.h"
#include "tost/kinds/language/explain_report.h"
#include "tost/kinds/train_run.h"
#include "tost/kinds/vision/explain_report.h"
#include "tost/kinds/vision/image_runner.h"
#include "tost/nn/module_device.h"
#include "tost/ops/device.h"
#include "tost/train/run_test_util.h"

namespace tost {
namespace device_runs_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::expect_close_runs;
using testing::language_values;
using testing::newest_checkpoint;
using testing::vision_values;
using torch::Tensor;

std::string refusal(const std::string& name) {
  return testing::usage_error_of([&] { device_from_name(name); });
}

TEST(DeviceNames, AreTakenOrRefusedInOneSentence) {
  EXPECT_TRUE(device_from_name("cpu").is_cpu());
  for (const char* name : {"gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda:99999999999999999999", ""}) {
    EXPECT_NE(refusal(name).find("Unknown device"), std::string::npos) << name;
  }
  EXPECT_NE(refusal("cuda:120").find(gpu_count() > 0 ? "torch sees" : "CUDA"), std::string::npos);
  EXPECT_EQ(device_from_name("auto").is_cuda(), gpu_count() > 0);
}

TEST(DeviceNames, OfAGpuKeepFloat32ConvolutionsFloat32) {
  TOST_TEST_GPU(device);
  for (const char* name : {"cuda", "auto"}) {
    at::globalContext().setAllowTF32CuDNN(true);
    EXPECT_EQ(device_from_name(name), device);
    EXPECT_FALSE(at::globalContext().allowTF32CuDNN()) << name;
  }
}

TrainResult run(const fs::path& out, const json& values, RunMode mode = RunMode::kNew,
                int64_t stop_at = -1) {
  testing::StopAt listener(stop_at);
  return train({out, mode, values}, listener, &listener.stop);
}

void expect_close_json(const json& a, const json& b, const std::string& where) {
  ASSERT_EQ(a.is_structured(), b.is_structured()) << where;
  if (a.is_number_float()) {
    EXPECT_NEAR(a.get<double>(), b.get<double>(), 1e-3 + 0.01 * std::abs(a.get<double>())) << where;
  } else if (!a.is_structured()) {
    EXPECT_EQ(a, b) << where;
  } else {
    ASSERT_EQ(a.size(), b.size()) << where;
    for (const auto& item : a.items()) {
      const json& other = b.is_array() ? b[std::stoul(item.key())] : b.at(item.key());
      expect_close_json(item.value(), other, cat(where, "/", item.key()));
    }
  }
}

TEST(RunsOnGpu, SlowResumedGoOnAsUninterrupted) {
  TOST_TEST_GPU(device);
  const testing::TempDir dir;
  const json values = vision_values("cuda");
  run(dir.path() / "whole", values);
  run(dir.path() / "parts", values, RunMode::kNew, 3);
  const TrainResult result = run(dir.path() / "parts", json::object(), RunMode::kResume);
  EXPECT_EQ(result.step, result.total_steps);
  // Torch's own kernels need not repeat bit for bit on a GPU; the stand-in's do.
  expect_close_runs(dir.path() / "whole", dir.path() / "parts", built_with_cuda() ? 0.02 : 0);
  EXPECT_TRUE(newest_checkpoint(dir.path() / "whole").parts.back().tensors.contains("random.cuda"));
}

// Without random numbers on the device its steps are those of the CPU, which can resume the run.
TEST(RunsOnGpu, SlowTrainAsOnTheCpuAndGoOnThere) {
  TOST_TEST_GPU(device);
  const testing::TempDir dir;
  json cpu = vision_values("cpu"), gpu = vision_values("cuda");
  cpu["drop_path"] = gpu["drop_path"] = 0;
  run(dir.path() / "cpu", cpu);
  run(dir.path() / "gpu", gpu, RunMode::kNew, 3);
  run(dir.path() / "gpu", {{"device", "cpu"}}, RunMode::kResume);
  expect_close_runs(dir.path() / "gpu", dir.path() / "cpu", 0.02);
}

TEST(RunsOnGpu, SlowBfloat16AndAccumulation) {
  TOST_TEST_GPU(device);
  const testing::TempDir dir;
  json values = language_values(dir, "cuda");
  values["precision"] = "bf16";
  values["accumulate"] = 2;
  values["recompute"] = "block";
  const TrainResult result = run(dir.path() / "run", values);
  EXPECT_EQ(result.step, 8);
  EXPECT_LT(result.last_eval["loss"].get<double>(), 3.5);
}

TEST(PicturesOnGpu, SlowAreScoredPredictedAndExplainedAsOnTheCpu) {
  TOST_TEST_GPU(device);
  const testing::TempDir dir;
  run(dir.path() / "run", vision_values("cpu"));
  const auto here = load_model_file(dir.path() / "run"),
             there = load_model_file(dir.path() / "run");
  there.model->to(device);
  const auto data = std::make_shared<ShapesDataset>(0, "test", 16, 32);
  LoaderConfig config{.batch_size = 16, .preprocess = here.info.preprocess};
  ImageLoader loader(data, config), other(data, config);
  const auto wanted = evaluate(*here.model, loader);
  const auto found = evaluate(*there.model, other);
  EXPECT_NEAR(found->loss(), wanted->loss(), 1e-4);
  EXPECT_EQ(found->count, wanted->count);
  VisionExplainOptions explain;
  explain.samples = 4;
  explain.bound = true;
  explain.held = data;
  explain.held_split = "test";
  explain.data = "shapes";
  const auto a = explain_vision(here, explain), b = explain_vision(there, explain);
  expect_close_json(to_json(*a), to_json(*b), "report");
  EXPECT_EQ(a->splits[0].right, b->splits[0].right);
}

TEST(TextsOnGpu, SlowAreScoredWrittenKeptAndExplainedAsOnTheCpu) {
  TOST_TEST_GPU(device);
  const testing::TempDir dir;
  run(dir.path() / "run", language_values(dir, "cpu"));
  const auto here = load_language_file(dir.path() / "run");
  const auto there = load_language_file(dir.path() / "run");
  EXPECT_THROW(place_language(there.model, Precision::kInt8, device), Error);
  place_language(there.model, Precision::kFp32, device);
  EXPECT_EQ(device_of(*there.model), device);
  GenerateConfig config;
  config.max_tokens = 12;
  config.past_block = "slide";
  config.sampling.temperature = 0;
  const auto& tokenizer = *here.info.tokenizer;
  const auto prompt = tokenizer.encode("one two");
  const std::vector<int64_t> ids(prompt.begin(), prompt.end());
  TextSession host_session, device_session;
  const auto wanted = generate(*here.model, tokenizer, {ids}, config, &host_session);
  const auto found = generate(*there.model, tokenizer, {ids}, config, &device_session);
  EXPECT_EQ(found.texts[0].text, wanted.texts[0].text);
  save_session(dir.path() / "session", device_session, *there.model);
  TextSession again = load_session(dir.path() / "session", *there.model);
  const auto next = generate(*here.model, tokenizer, {{}}, config, &host_session);
  EXPECT_EQ(generate(*there.model, tokenizer, {{}}, config, &again).texts[0].text,
            next.texts[0].text);
  Passage passage;
  passage.ids = ids;
  for (const int64_t id : ids) passage.tokens.push_back(std::to_string(id));
  TextExplainOptions explain;
  explain.bound = true;
  const auto a = explain_text(here, passage, explain), b = explain_text(there, passage, explain);
  EXPECT_TRUE(torch::allclose(a->trace.loss, b->trace.loss, 1e-4, 1e-4));
  EXPECT_TRUE(torch::allclose(a->influence[0], b->influence[0], 1e-3, 1e-4));
  expect_close_json(to_json(*a), to_json(*b), "report");
}

}  // namespace device_runs_test
}  // namespace tost
