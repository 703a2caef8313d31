// Every model on a GPU or on the stand-in: the numbers are those of the CPU, and no tensor stays on
// it.
#include <gtest/gtest.h>

#include "tests/device_test_util.h"
#include "tests/testing/stand_in_gpu.h"
#include "tost/base/error.h"
#include "tost/kinds/language/model.h"
#include "tost/kinds/sequence/classifier.h"
#include "tost/kinds/vision/image_classifier.h"
#include "tost/nn/block.h"
#include "tost/nn/mixer_tssa.h"
#include "tost/nn/module_device.h"
#include "tost/nn/precision.h"
#include "tost/nn/state_dict.h"
#include "tost/nn/token_mixer.h"
#include "tost/ops/arrays.h"
#include "tost/ops/tssa.h"
#include "tost/ops/tssa_causal.h"

namespace tost {
namespace device_models_test {

using torch::Tensor;

using testing::shaken;
using testing::test_name;

void expect_close(const Tensor& found, const Tensor& wanted, double limit,
                  const std::string& what) {
  ASSERT_EQ(found.sizes(), wanted.sizes()) << what;
  const double size = std::max(wanted.abs().max().item<double>(), 1e-6);
  const double error = (found.cpu() - wanted).abs().max().item<double>();
  EXPECT_LE(error, limit * size) << what;
}

// The value and all gradients of `loss(model)`, on the CPU and on the device.
template <class Model, class Loss>
void expect_same_training(const std::shared_ptr<Model>& model,
                          const std::shared_ptr<Model>& on_device, c10::Device device, Loss loss,
                          double limit = 2e-3) {
  load_state_dict(*on_device, state_dict(*model));
  on_device->to(device);
  const Tensor wanted = loss(*model), found = loss(*on_device);
  EXPECT_EQ(found.device(), device);
  expect_close(found.detach(), wanted.detach(), limit, "loss");
  wanted.backward();
  found.backward();
  const auto named = on_device->named_parameters();
  for (const auto& item : model->named_parameters()) {
    const Tensor& gradient = named[item.key()].grad();
    ASSERT_EQ(gradient.defined(), item.value().grad().defined()) << item.key();
    if (!gradient.defined()) continue;
    EXPECT_EQ(gradient.device(), device) << item.key();
    expect_close(gradient, item.value().grad().to_dense(), limit, item.key());
  }
}

// Values, gradients and a step after half of the tokens, in every dtype.
TEST(OperatorsOnGpu, AreThePlainFormThere) {
  TOST_TEST_GPU(device);
  torch::manual_seed(6);
  for (const auto dtype : {torch::kFloat, torch::kBFloat16, torch::kHalf, torch::kDouble}) {
    const Tensor w = torch::randn({2, 9, 6}).to(dtype), temp = torch::rand({3, 1}) + 0.5;
    const Tensor bias = 0.1 * torch::randn({3, 7, 1}), lengths = torch::tensor({9, 4});
    const auto run = [&](c10::Device where, torch::ScalarType type) {
      const Tensor x = w.to(where, type).requires_grad_();
      const Tensor t = temp.to(where).requires_grad_(), b = bias.to(where).requires_grad_();
      const auto [y, pi] = tssa(x, t, lengths.to(where));
      const auto [half, own, state] = tssa_causal(x.narrow(1, 0, 5), t, b);
      const auto [step, last, after] = tssa_causal(x.narrow(1, 5, 4), t, b, state, 5);
      EXPECT_EQ(y.scalar_type(), type);
      const Tensor loss = y.square().sum() + pi.square().sum() + step.square().sum();
      auto found = torch::autograd::grad({loss}, {x, t, b});
      found.insert(found.end(), {y.detach(), pi.detach(), step.detach(), after});
      return found;
    };
    // The CPU computes halves in no operator of ours.
    const auto wanted = run(torch::kCPU, dtype == torch::kHalf ? torch::kFloat : dtype);
    const auto found = run(device, dtype);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].device(), device);
      const double limit = dtype == torch::kBFloat16 || dtype == torch::kHalf ? 0.02 : 1e-5;
      expect_close(found[i].to(torch::kDouble), wanted[i].to(torch::kDouble), limit, cat(i));
    }
    const torch::InferenceMode no_autograd;
    const Tensor x = w.to(device), t = temp.to(device), b = bias.to(device);
    EXPECT_EQ(std::get<0>(tssa(x, t)).device(), device);
    EXPECT_EQ(std::get<0>(tssa_causal(x, t, b)).device(), device);
    EXPECT_THROW(tssa(x, temp), Error);
    EXPECT_THROW(tssa_causal(x, t, bias), Error);
  }
}

std::vector<std::string> with(std::vector<std::string> names, std::vector<std::string> more) {
  names.insert(names.end(), more.begin(), more.end());
  return names;
}

TEST(TiedOnGpu, HasTheSubspacesOfTheCpuAndTheirGradient) {
  TOST_TEST_GPU(device);
  torch::manual_seed(5);
  for (const int64_t dim : {12, 3}) {  // 3: square
    const auto make = [&](torch::Device where) {
      auto mixer = std::make_shared<TssaTiedMixer>(MixerConfig{.dim = dim, .heads = dim / 3});
      mixer->to(torch::kDouble);
      mixer->to(where);
      return mixer;
    };
    const auto here = make(torch::kCPU), there = make(device);
    const Tensor basis = torch::randn({dim / 3, dim, 3}, torch::kDouble);
    const Tensor weight = torch::randn_like(basis);
    for (const auto& mixer : {here, there}) {
      const torch::NoGradGuard no_grad;
      mixer->basis.copy_(basis);
    }
    expect_close(there->subspaces().detach(), here->subspaces().detach(), 1e-12, "subspaces");
    {
      const torch::NoGradGuard no_grad;
      expect_close(there->subspaces(), here->subspaces(), 1e-12, "without gradients");
    }
    (here->subspaces() * weight).sum().backward();
    (there->subspaces() * weight.to(device)).sum().backward();
    expect_close(there->basis.grad(), here->basis.grad(), 1e-11, "gradient");
  }
}

class VisionOnGpu : public ::testing::TestWithParam<std::string> {};

TEST_P(VisionOnGpu, TrainsAsOnTheCpu) {
  TOST_TEST_GPU(device);
  torch::manual_seed(1);
  VisionConfig c{.image_size = 16, .patch = 4, .dim = 16, .depth = 2, .heads = 2, .classes = 5};
  if (GetParam() == "linear-baseline") {
    c.architecture = "linear";
  } else {
    c.mixer = GetParam();
    c.registers = 2;
  }
  const auto images = torch::randn({3, 3, 16, 16});
  const auto labels = torch::randint(0, 5, {3}, torch::kLong);
  expect_same_training(shaken(make_image_classifier(c)), make_image_classifier(c), device,
                       [&](ImageClassifier& model) {
                         return torch::cross_entropy_loss(model.forward(images),
                                                          to_device(labels, device_of(model)));
                       });
}

INSTANTIATE_TEST_SUITE_P(Mixers, VisionOnGpu,
                         ::testing::ValuesIn(with(mixer_names(), {"linear-baseline"})), test_name);

LanguageConfig language(const std::string& name) {
  return testing::tiny_language(name, /*block=*/150);
}

// To every causal mixer, what can be added.
const std::vector<std::string> kAdditions{"tssa+gate",     "tssa+values",    "tssa+tokens",
                                          "tssa+hybrid",   "softmax+window", "means+full",
                                          "uniform+plain", "delta+full"};

class LanguageOnGpu : public ::testing::TestWithParam<std::string> {
 protected:
  std::shared_ptr<LanguageModel> make() {
    torch::manual_seed(2);
    return shaken(make_language_model(language(GetParam())));
  }
};

TEST_P(LanguageOnGpu, TrainsAsOnTheCpu) {
  TOST_TEST_GPU(device);
  const auto model = make(), on_device = make();
  const auto ids = torch::randint(0, 40, {2, 150}), targets = torch::randint(0, 40, {2, 150});
  const auto few = targets.masked_fill(torch::arange(150) % 5 != 0, -1);
  for (const Tensor& wanted_rows : {targets, few}) {
    model->zero_grad();
    on_device->zero_grad();
    expect_same_training(model, on_device, device,
                         [&](LanguageModel& m) { return m.loss(ids, wanted_rows); });
  }
}

TEST_P(LanguageOnGpu, ReadsOnFromItsState) {
  TOST_TEST_GPU(device);
  const auto model = make(), on_device = make();
  on_device->to(device);
  model->eval();
  on_device->eval();
  const auto ids = torch::randint(0, 40, {2, 90});
  LanguageState state, gradient;
  for (const auto& [first, count] : {std::pair{0, 70}, {70, 1}, {71, 1}, {72, 18}}) {
    const auto piece = ids.narrow(1, first, count);
    const Tensor found = on_device->extend(piece, gradient);
    EXPECT_EQ(found.device(), device);
    expect_close(found, model->extend(piece, state), 2e-3, cat("token ", first));
  }
  for (const auto& block : gradient.blocks) {
    for (const auto& [name, array] : block) {
      EXPECT_EQ(tensor_of(array).device(), device) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Mixers, LanguageOnGpu,
                         ::testing::ValuesIn(with(causal_mixer_names(), kAdditions)), test_name);

TEST(ModelsOnGpu, RefuseIdsAndTargetsOutsideTheVocabulary) {
  TOST_TEST_GPU(device);
  const auto model = make_language_model(language("tssa"));
  model->to(device);
  const auto good = torch::zeros({1, 4}, torch::kLong), bad = torch::full({1, 4}, 40, torch::kLong);
  EXPECT_THROW(model->forward(bad), Error);
  EXPECT_THROW(model->loss(good, bad), Error);
}

TEST(ModelsOnGpu, AutocastIsTheDevicesOwn) {
  TOST_TEST_GPU(device);
  const auto model = make_language_model(language("tssa"));
  model->to(device);
  const PrecisionScope precision(Precision::kBf16, device);
  const auto ids = torch::randint(0, 40, {2, 30});
  EXPECT_EQ(model->forward(ids).scalar_type(), torch::kBFloat16);
  model->loss(ids, ids).backward();
  for (const auto& item : model->named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_EQ(item.value().grad().scalar_type(), torch::kFloat) << item.key();
    EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
  }
}

TEST(ModelsOnGpu, ComputeAgainWhatIsNotKept) {
  TOST_TEST_GPU(device);
  for (const auto recompute : {Recompute::kMlp, Recompute::kBlock}) {
    torch::manual_seed(3);
    const auto model = shaken(make_language_model(language("tssa")));
    const auto on_device = make_language_model(language("tssa"));
    set_recompute(*on_device, recompute);
    const auto ids = torch::randint(0, 40, {2, 30});
    const PrecisionScope precision(Precision::kBf16, device);
    expect_same_training(
        model, on_device, device, [&](LanguageModel& m) { return m.loss(ids, ids); }, 0.1);
  }
}

class SequencesOnGpu : public ::testing::TestWithParam<std::string> {};

TEST_P(SequencesOnGpu, TrainAsOnTheCpu) {
  TOST_TEST_GPU(device);
  torch::manual_seed(4);
  SequenceConfig c;
  c.mixer = GetParam();
  c.vocab = 20;
  c.max_length = 100;
  c.dim = 16;
  c.depth = 2;
  c.heads = 2;
  c.pairs = GetParam() == "tssa";
  c.pool = GetParam() == "ssm" ? "mean" : "class";
  c.positions = GetParam() == "softmax" ? "sinusoidal" : "learned";
  c.classes = 3;
  const auto ids = torch::randint(1, 20, {3, 100});
  const auto lengths = torch::tensor({100, 1, 57}), labels = torch::tensor({0, 1, 2});
  expect_same_training(
      shaken(make_sequence_classifier(c)), make_sequence_classifier(c), device,
      [&](SequenceClassifier& model) {
        const SequenceInput input{ids, lengths};
        const Tensor logits = c.pairs ? model.forward(input, {ids, {}}) : model.forward(input);
        return torch::cross_entropy_loss(logits, to_device(labels, logits.device()));
      });
}

INSTANTIATE_TEST_SUITE_P(Mixers, SequencesOnGpu, ::testing::ValuesIn(mixer_names()), test_name);

}  // namespace device_models_test
}  // namespace tost
