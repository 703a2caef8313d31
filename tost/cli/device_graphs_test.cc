// Inference, decoding and training by graphs, on a GPU, real or stood in for: the numbers of the
// same without them.
#include <gtest/gtest.h>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/cli/device_test_util.h"
#include "tost/eval/image_runner.h"
#include "tost/eval/language_place.h"
#include "tost/eval/sequence_runner.h"
#include "tost/infer/language_graph.h"
#include "tost/models/causal_mixer.h"
#include "tost/models/module_device.h"
#include "tost/models/token_mixer.h"
#include "tost/testing/errors.h"
#include "tost/testing/stand_in_gpu.h"
#include "tost/testing/temp_dir.h"
#include "tost/train/run_test_util.h"
#include "tost/train/train_run.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using torch::Tensor;

using testing::newest_checkpoint;
using testing::test_name;

template <class Model>
std::shared_ptr<Model> shaken(std::shared_ptr<Model> model, torch::Device device) {
  testing::shaken(model)->to(device);
  model->eval();
  return model;
}

class PicturesByGraphs : public ::testing::TestWithParam<std::string> {};

TEST_P(PicturesByGraphs, HaveTheSameLogits) {
  TOST_TEST_GPU(device);
  torch::manual_seed(1);
  VisionConfig c{.image_size = 16, .patch = 4, .dim = 16, .depth = 2, .heads = 2, .classes = 5};
  c.mixer = GetParam();
  const auto model = shaken(make_image_classifier(c), device);
  for (const char* precision : {"fp32", "bf16"}) {
    ImageRunner graphed(*model, precision, true, "on"), plain(*model, precision, true, "off");
    for (int i = 0; i < 5; ++i) {
      for (const int64_t batch : {3, 2}) {  // the last batch of a set is smaller
        const Tensor images = torch::randn({batch, 3, 16, 16});
        const Tensor found = graphed.logits(images).cpu(), wanted = plain.logits(images).cpu();
        EXPECT_TRUE(found.equal(wanted)) << precision << " " << i;
      }
    }
    EXPECT_EQ(graphed.call().replays(), 6) << graphed.call().take_complaint();
    EXPECT_EQ(plain.call().replays(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Mixers, PicturesByGraphs, ::testing::ValuesIn(mixer_names()), test_name);

// Weights written in place, as an optimiser or averaging does, are seen.
TEST(PicturesByGraphs, SeeNewWeights) {
  TOST_TEST_GPU(device);
  VisionConfig c{.image_size = 16, .patch = 4, .dim = 16, .depth = 1, .heads = 2, .classes = 5};
  const auto model = shaken(make_image_classifier(c), device);
  ImageRunner graphed(*model, "bf16", true, "on"), plain(*model, "bf16", true, "off");
  const Tensor images = torch::randn({2, 3, 16, 16});
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(graphed.logits(images).equal(plain.logits(images))) << i;
    const torch::NoGradGuard no_grad;
    for (auto& p : model->parameters()) p.mul_(1.1);
  }
  EXPECT_GT(graphed.call().replays(), 0);
}

// Models that end within a test, where a frozen position would show.
LanguageConfig language(const std::string& name) {
  return testing::tiny_language(name, /*block=*/12);
}

std::vector<std::string> keeping_their_size() {
  std::vector<std::string> names;
  for (const std::string& name : causal_mixer_names()) {
    if (name != "softmax") names.push_back(name);
  }
  for (const char* more : {"tssa+gate", "tssa+values", "tssa+none", "tssa-means+full",
                           "tssa-uniform+plain", "delta+full"}) {
    names.emplace_back(more);
  }
  return names;
}

class TextsByGraphs : public ::testing::TestWithParam<std::string> {};

// Over the end of the biases (5 or 12 positions), where a frozen position would show, with another
// group of texts between and a state that is set aside.
TEST_P(TextsByGraphs, HaveTheSameLogitsAndStates) {
  TOST_TEST_GPU(device);
  torch::manual_seed(2);
  const auto model = shaken(make_language_model(language(GetParam())), device);
  const auto twin = std::make_shared<LanguageModel>(model->config());
  load_state_dict(*twin, state_dict(*model));
  twin->to(device);
  twin->eval();
  for (const char* precision : {"fp32", "bf16"}) {
    place_language(twin, precision, device, "on");
    const PrecisionScope scope(precision, device);
    LanguageState state, own, aside, other, own_other;
    int64_t asides = 0;
    const auto expect_same = [&](LanguageState& wanted, LanguageState& found, const Tensor& ids) {
      const Tensor a = model->extend(ids, wanted), b = twin->extend(ids, found);
      EXPECT_TRUE(a.equal(b)) << precision << " at " << wanted.position;
      EXPECT_EQ(wanted.position, found.position);
      for (size_t i = 0; i < wanted.blocks.size(); ++i) {
        for (const auto& [name, tensor] : wanted.blocks[i]) {
          EXPECT_TRUE(tensor.equal(found.blocks[i].at(name))) << name << " at " << wanted.position;
        }
      }
    };
    expect_same(state, own, torch::randint(0, 40, {2, 3}));
    expect_same(other, own_other, torch::randint(0, 40, {1, 2}));
    for (int64_t t = 3; t < 11; ++t) {
      expect_same(state, own, torch::randint(0, 40, {2, 1}));
      if (t % 2 == 0) expect_same(other, own_other, torch::randint(0, 40, {1, 1}));
      if (t == 7) aside = own, asides = state.position;
    }
    EXPECT_EQ(aside.position, asides);
    LanguageState again = aside;
    twin->extend(torch::randint(0, 40, {2, 1}), again);
    EXPECT_EQ(aside.position, asides);
    for (const auto& [name, tensor] : aside.blocks[0]) {
      EXPECT_FALSE(tensor.equal(again.blocks[0].at(name))) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Mixers, TextsByGraphs, ::testing::ValuesIn(keeping_their_size()),
                         test_name);

TEST(TextsByGraphs, AreReplayedAndKeptApart) {
  TOST_TEST_GPU(device);
  torch::manual_seed(3);
  const auto model = shaken(make_language_model(language("tssa+none")), device);
  LanguageState a, b;
  const Tensor prompt = torch::randint(0, 40, {2, 3}), next = torch::randint(0, 40, {2, 1});
  std::vector<Tensor> wanted;
  model->extend(prompt, a);
  for (int i = 0; i < 6; ++i) wanted.push_back(model->extend(next, a));
  const auto graphs = read_by_graphs(model, false);
  a = {};
  model->extend(prompt, a);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(model->extend(next, a).equal(wanted[size_t(i)])) << i;
  EXPECT_EQ(graphs->replays(), 2);
  b = a;  // both go on from here, in turns
  for (int i = 4; i < 6; ++i) {
    EXPECT_TRUE(model->extend(next, a).equal(wanted[size_t(i)])) << i;
    EXPECT_TRUE(model->extend(next, b).equal(wanted[size_t(i)])) << i;
  }
  a = b = {};
  model->extend(prompt, a);
  EXPECT_TRUE(model->extend(next, a).equal(wanted[0]));  // in a place that is free again
  EXPECT_TRUE(graphs->by_graphs());
  EXPECT_THROW(model->extend(torch::full({2, 1}, 40), a), Error);
  EXPECT_EQ(a.position, 4);
}

// More batch sizes, one after the other, than there are places: that used least recently goes.
TEST(TextsByGraphs, MakeRoomForOtherBatches) {
  TOST_TEST_GPU(device);
  torch::manual_seed(4);
  const torch::NoGradGuard no_grad;
  const auto model = shaken(make_language_model(language("tssa")), device);
  const auto twin = std::make_shared<LanguageModel>(model->config());
  load_state_dict(*twin, state_dict(*model));
  twin->to(device);
  twin->eval();
  const auto graphs = read_by_graphs(twin, false);
  const auto most = int64_t(LanguageGraphs::kMostStates);
  // Reads a text of `steps` single tokens and lets go of it: how many of the steps were replayed.
  const auto replayed = [&](int64_t batch, int steps) {
    const int64_t before = graphs->replays();
    LanguageState wanted, found;
    const Tensor prompt = torch::randint(0, 40, {batch, 2});
    model->extend(prompt, wanted), twin->extend(prompt, found);
    for (int i = 0; i < steps; ++i) {
      const Tensor ids = torch::randint(0, 40, {batch, 1});
      EXPECT_TRUE(model->extend(ids, wanted).equal(twin->extend(ids, found))) << batch << " " << i;
    }
    return graphs->replays() - before;
  };
  for (int64_t batch = 1; batch <= most; ++batch) EXPECT_EQ(replayed(batch, 3), 1) << batch;
  EXPECT_EQ(replayed(1, 2), 2);         // used again, so that the oldest is that of 2
  EXPECT_EQ(replayed(most + 1, 3), 1);  // in the place of 2
  EXPECT_EQ(replayed(1, 2), 2);
  EXPECT_EQ(replayed(3, 2), 2);
  EXPECT_EQ(replayed(2, 3), 1);  // captured anew

  // Held states are no place for others: the modules go on, or a sentence says it.
  std::vector<LanguageState> held(size_t(most) + 1);
  for (LanguageState& state : held) {
    twin->extend(torch::zeros({1, 2}, torch::kLong), state);
    twin->extend(torch::zeros({1, 1}, torch::kLong), state);
  }
  EXPECT_EQ(held.back().position, 3);
  graphs->demand_graphs();
  EXPECT_NE(testing::usage_error_of([&] {
              twin->extend(torch::zeros({1, 1}, torch::kLong), held.back());
            }).find("8 states at a time"),
            std::string::npos);
}

// Nothing to keep but the position.
TEST(TextsByGraphs, AreReplayedWithoutAState) {
  TOST_TEST_GPU(device);
  const auto model = shaken(make_language_model(language("none")), device);
  const auto graphs = read_by_graphs(model, false);
  LanguageState state;
  model->extend(torch::zeros({2, 2}, torch::kLong), state);
  for (int i = 0; i < 5; ++i) model->extend(torch::zeros({2, 1}, torch::kLong), state);
  EXPECT_EQ(graphs->replays(), 3);
}

TEST(TextsByGraphs, AreRefusedWhereTheStateGrows) {
  TOST_TEST_GPU(device);
  const auto model = make_language_model(language("softmax"));
  EXPECT_THROW(place_language(model, "fp32", device, "on"), Error);
  place_language(model, "fp32", device, "auto");
  model->eval();
  LanguageState state;
  for (int i = 0; i < 4; ++i) model->extend(torch::zeros({1, 1}, torch::kLong), state);
  EXPECT_EQ(state.position, 4);
}

// `auto` goes on, `on` says why not.
TEST(GraphsThatCannotBe, EndWhatDemandsThem) {
  TOST_TEST_GPU(device);
  if (built_with_cuda()) GTEST_SKIP() << "a real GPU captures";
  const testing::NoCaptures refused;
  VisionConfig c{.image_size = 16, .patch = 4, .dim = 16, .depth = 1, .heads = 2, .classes = 5};
  const auto pictures = shaken(make_image_classifier(c), device);
  const auto texts = shaken(make_language_model(language("tssa")), device);
  const auto sequences = [&](const std::string& graphs) {
    SequenceConfig config = sequence_preset("tost_seq_tiny");
    config.dim = 16, config.depth = 1, config.heads = 2, config.vocab = 9, config.classes = 2;
    const auto model = shaken(make_sequence_classifier(config), device);
    SequenceRunner runner(*model, "fp32", true, graphs);
    SequenceBatch batch;
    batch.ids = torch::ones({2, 5}, torch::kLong);
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(runner.logits(batch).isfinite().all().item<bool>());
    EXPECT_EQ(runner.call().replays(), 0);
  };
  const auto images = [&](const std::string& graphs) {
    ImageRunner runner(*pictures, "fp32", true, graphs), plain(*pictures, "fp32", true, "off");
    const Tensor x = torch::randn({2, 3, 16, 16});
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(runner.logits(x).equal(plain.logits(x)));
  };
  const auto decode = [&](const std::string& graphs) {
    const auto reader = place_language(texts, "fp32", device, graphs);
    LanguageState state;
    for (int i = 0; i < 6; ++i) texts->extend(torch::zeros({1, 1}, torch::kLong), state);
    EXPECT_EQ(state.position, 6);
    EXPECT_EQ(reader->replays(), 0);
    EXPECT_FALSE(reader->by_graphs());
  };
  const std::vector<std::function<void(const std::string&)>> all{images, sequences, decode};
  for (const auto& work : all) {
    work("auto");
    const auto why = testing::usage_error_of([&] { work("on"); });
    EXPECT_NE(why.find("graphs on cannot be: this device captures nothing"), std::string::npos)
        << why;
  }
}

std::vector<std::string> run(const fs::path& out, const json& values, RunMode mode = RunMode::kNew,
                             int64_t stop_at = -1) {
  testing::StopAt listener(stop_at);
  train({out, mode, values}, listener, &listener.stop);
  return listener.messages;
}

// Torch's own kernels need not repeat bit for bit on a GPU; the stand-in's do.
void expect_same_runs(const fs::path& a, const fs::path& b) {
  const Checkpoint x = newest_checkpoint(a), y = newest_checkpoint(b);
  ASSERT_EQ(x.step, y.step);
  ASSERT_EQ(x.parts.size(), y.parts.size());
  for (size_t i = 0; i < x.parts.size(); ++i) {
    for (const auto& [name, tensor] : x.parts[i].tensors) {
      const Tensor& other = y.parts[i].tensors.at(name);
      if (built_with_cuda() && tensor.is_floating_point()) {
        EXPECT_TRUE(torch::allclose(tensor, other, 0.02, 1e-4)) << name;
      } else {
        EXPECT_TRUE(tensor.equal(other)) << name;
      }
    }
  }
}

json vision_values() {
  json values = testing::tiny_vision_values();
  values.update({{"eval_batch", 24},
                 {"lr", 1e-3},
                 {"warmup_epochs", 1},
                 {"clip", 0.5},
                 {"outlier_z", 6},
                 {"device", "cuda"},
                 {"evaluate_ema", true}});
  values["model_options"]["depth"] = 2;
  return values;
}

json language_values(const testing::TempDir& dir) {
  json values = testing::tiny_language_values(testing::write_text_of_numbers(dir));
  values.update({{"accumulate", 2},
                 {"max_steps", 9},
                 {"warmup_steps", 3},
                 {"evaluate_every_steps", 4},
                 {"precision", "bf16"},
                 {"device", "cuda"}});
  return values;
}

// With and without graphs, and with them in two processes. `said`: of the one by graphs.
void expect_same_training(const testing::TempDir& dir, json values,
                          const std::vector<std::string>& said = {}) {
  values["graphs"] = "off";
  run(dir.path() / "plain", values);
  values["graphs"] = "on";
  EXPECT_EQ(run(dir.path() / "graphs", values), said);
  expect_same_runs(dir.path() / "plain", dir.path() / "graphs");
  run(dir.path() / "parts", values, RunMode::kNew, 5);
  run(dir.path() / "parts", json::object(), RunMode::kResume);
  expect_same_runs(dir.path() / "plain", dir.path() / "parts");
}

TEST(TrainingByGraphs, SlowOfPicturesIsTheSame) {
  TOST_TEST_GPU(device);
  const testing::TempDir dir;
  expect_same_training(dir, vision_values());
}

TEST(TrainingByGraphs, SlowOfTextsIsTheSame) {
  TOST_TEST_GPU(device);
  const testing::TempDir dir;
  expect_same_training(dir, language_values(dir));
}

// Subspaces made orthonormal, and a triangular system a chunk, in every step.
TEST(TrainingByGraphs, SlowOfTiedAndDeltaMixersIsTheSame) {
  TOST_TEST_GPU(device);
  const testing::TempDir pictures, texts;
  json values = vision_values();
  values["model_options"]["mixer"] = "tssa-tied";
  expect_same_training(pictures, values);
  values = language_values(texts);
  values["mixer"] = "delta";
  expect_same_training(texts, values);
}

// Padded batches of many lengths: more shapes than there are graphs.
TEST(TrainingByGraphs, SlowOfSequencesIsTheSame) {
  TOST_TEST_GPU(device);
  const testing::TempDir dir;
  std::string rows;
  for (int64_t i = 0; i < 96; ++i) {
    const char label = i % 3 == 0 ? 'a' : 'b';
    rows += std::string(1, label) + "\t" + std::string(size_t(4 + i * 7 % 9), label) + "x\n";
  }
  write_file_atomic(dir.path() / "train.tsv", rows);
  expect_same_training(
      dir,
      {{"model", "tost_seq_tiny"},
       {"data", (dir.path() / "train.tsv").string()},
       {"data_format", "text"},
       {"holdout", 0.25},
       {"batch", 6},
       {"eval_batch", 7},
       {"epochs", 3},
       {"warmup_steps", 3},
       {"threads", 1},
       {"dropout", 0.1},
       {"dim", 16},
       {"depth", 1},
       {"heads", 2},
       {"device", "cuda"}},
      {"Some of it runs without graphs: there are graphs for 6 sets of shapes, and "
       "this is one more."});
}

// Two lengths in turns, and few targets, whose rows alone the head reads.
TEST(TrainingByGraphs, SlowOfRecallIsTheSame) {
  TOST_TEST_GPU(device);
  const testing::TempDir dir;
  expect_same_training(dir, {{"recipe", "mqar"},
                             {"batch", 4},
                             {"max_steps", 12},
                             {"vocab", 16},
                             {"dim", 16},
                             {"warmup_steps", 2},
                             {"eval_samples", 4},
                             {"evaluate_every_steps", 4},
                             {"threads", 1},
                             {"dropout", 0.1},
                             {"lengths", "16,32"},
                             {"device", "cuda"}});
}

// A rate that makes losses outliers: skipped steps leave weights and count of steps alone.
TEST(TrainingByGraphs, SlowSkipsTheSameSteps) {
  TOST_TEST_GPU(device);
  const testing::TempDir dir;
  json values = vision_values();
  values["outlier_z"] = 0.5;
  values["outlier_limit"] = 100;
  values["epochs"] = 3;
  values["graphs"] = "off";
  const auto wanted = run(dir.path() / "plain", values);
  values["graphs"] = "on";
  const auto found = run(dir.path() / "graphs", values);
  if (!built_with_cuda()) {
    EXPECT_EQ(found, wanted);
  }
  expect_same_runs(dir.path() / "plain", dir.path() / "graphs");
}

TEST(TrainingByGraphs, SlowSaysThatItGoesOnWithout) {
  TOST_TEST_GPU(device);
  if (built_with_cuda()) GTEST_SKIP() << "a real GPU captures";
  const testing::TempDir dir;
  const testing::NoCaptures refused;
  expect_same_training(dir, language_values(dir),
                       {"It runs without graphs: this device captures nothing."});
}

TEST(TrainingByGraphs, AreRefusedWhereTheyCannotBe) {
  TOST_TEST_GPU(device);
  const testing::TempDir dir;
  json values = language_values(dir);
  values["graphs"] = "on";
  values["recompute"] = "block";
  EXPECT_THROW(run(dir.path() / "run", values), Error);
  values["graphs"] = "on";
  values["recompute"] = "none";
  values["device"] = "cpu";
  EXPECT_THROW(run(dir.path() / "other", values), Error);
}

}  // namespace
}  // namespace tost
