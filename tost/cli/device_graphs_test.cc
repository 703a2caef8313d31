// Inference and decoding by graphs, on a GPU, real or stood in for: the numbers of the same without
// them.
#include <gtest/gtest.h>

#include "tost/base/error.h"
#include "tost/cli/device_test_util.h"
#include "tost/kinds/language/place.h"
#include "tost/kinds/language/step_graph.h"
#include "tost/kinds/sequence/runner.h"
#include "tost/kinds/vision/image_runner.h"
#include "tost/nn/causal_mixer.h"
#include "tost/nn/module_device.h"
#include "tost/nn/state_dict.h"
#include "tost/nn/token_mixer.h"
#include "tost/testing/errors.h"
#include "tost/testing/stand_in_gpu.h"

namespace tost {
namespace device_graphs_test {

using testing::test_name;
using torch::Tensor;

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
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
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
  ImageRunner graphed(*model, Precision::kBf16, true, "on"),
      plain(*model, Precision::kBf16, true, "off");
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
  for (const char* more :
       {"tssa+gate", "tssa+values", "tssa+none", "means+full", "uniform+plain", "delta+full"}) {
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
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
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
  b = a;  // both continue from here, alternating
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
  EXPECT_EQ(replayed(2, 3), 1);  // captured again

  // Held states leave no place for others: the modules run instead, or a message says it.
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
  EXPECT_THROW(place_language(model, Precision::kFp32, device, "on"), Error);
  place_language(model, Precision::kFp32, device, "auto");
  model->eval();
  LanguageState state;
  for (int i = 0; i < 4; ++i) model->extend(torch::zeros({1, 1}, torch::kLong), state);
  EXPECT_EQ(state.position, 4);
}

// `auto` runs without graphs, `on` says why there are none.
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
    SequenceRunner runner(*model, Precision::kFp32, true, graphs);
    SequenceBatch batch;
    batch.ids = torch::ones({2, 5}, torch::kLong);
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(runner.logits(batch).isfinite().all().item<bool>());
    EXPECT_EQ(runner.call().replays(), 0);
  };
  const auto images = [&](const std::string& graphs) {
    ImageRunner runner(*pictures, Precision::kFp32, true, graphs),
        plain(*pictures, Precision::kFp32, true, "off");
    const Tensor x = torch::randn({2, 3, 16, 16});
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(runner.logits(x).equal(plain.logits(x)));
  };
  const auto decode = [&](const std::string& graphs) {
    const auto reader = place_language(texts, Precision::kFp32, device, graphs);
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

}  // namespace device_graphs_test
}  // namespace tost
