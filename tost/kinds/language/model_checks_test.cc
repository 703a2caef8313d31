#include "tost/kinds/language/model_checks.h"

#include <gtest/gtest.h>

#include "tost/base/error.h"
#include "tost/kinds/language/plain_model.h"
#include "tost/nn/precision.h"

namespace tost {
namespace {

using torch::Tensor;

LanguageConfig with_small_layer_scale(const std::string& mixer) {
  LanguageConfig config = language_preset("tost_gpt_char");
  config.mixer = mixer;
  config.layer_scale = 1e-5;
  config.dropout = 0.1;
  return config;
}

// A mixer that hands its calls to `change`.
class ChangedMixer : public TokenMixer {
 public:
  using Change = std::function<Tensor(TokenMixer&, const Tensor&, const MixerCall&)>;
  ChangedMixer(std::shared_ptr<TokenMixer> inner, Change change)
      : inner_(std::move(inner)), change_(std::move(change)) {}
  Tensor forward(const Tensor& x, const MixerCall& call) override {
    return change_(*inner_, x, call);
  }

 private:
  std::shared_ptr<TokenMixer> inner_;
  Change change_;
};

void change_mixers(LanguageModel& model, const ChangedMixer::Change& change) {
  for (const auto& module : model.modules(/*include_self=*/false)) {
    auto* block = module->as<Block>();
    if (block != nullptr) block->attn = std::make_shared<ChangedMixer>(block->attn, change);
  }
}

Tensor twice(TokenMixer& mixer, const Tensor& x, const MixerCall& call) {
  return 2 * mixer.forward(x, call);
}

Tensor forget(TokenMixer& mixer, const Tensor& x, const MixerCall& call) {
  MixerState nothing;
  return mixer.forward(x, {.trace = call.trace,
                           .state = call.state != nullptr ? &nothing : nullptr,
                           .position = call.position});
}

TEST(ModelChecks, PlainFormHasTheSameLossUnlessTheMixerIsWrong) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    torch::manual_seed(0);
    const auto model = make_language_model(with_small_layer_scale("tssa"));
    PlainModel plain(*model);
    const LossOf loss = [&](const Tensor& ids, const Tensor& t) { return plain.loss(ids, t); };
    EXPECT_NO_THROW(check_same_loss(*model, loss, precision));
    change_mixers(*model, twice);  // but not the plain form's
    EXPECT_THROW(check_same_loss(*model, loss, precision), Error) << precision;
  }
}

TEST(ModelChecks, StepsAgreeUnlessTheMixerForgets) {
  for (const std::string mixer : {"tssa", "softmax"}) {
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      torch::manual_seed(0);
      const auto model = make_language_model(with_small_layer_scale(mixer));
      use_precision(*model, precision);
      EXPECT_NO_THROW(check_steps(*model, mixer)) << precision;
      change_mixers(*model, forget);
      EXPECT_THROW(check_steps(*model, mixer), Error) << mixer << " " << precision;
    }
  }
}

TEST(ModelChecks, LeaveTheModelAsItWas) {
  const auto model = make_language_model(with_small_layer_scale("tssa"));
  const auto expect_unchanged = [&] {
    EXPECT_TRUE(model->is_training());
    for (const auto& item : model->named_parameters()) {
      EXPECT_TRUE(item.value().requires_grad());
      if (item.key().find("gamma") == std::string::npos) continue;
      EXPECT_TRUE(torch::equal(item.value(), torch::full_like(item.value(), 1e-5)));
    }
  };
  check_steps(*model, "tssa");
  expect_unchanged();
  const LossOf wrong = [&](const Tensor&, const Tensor&) { return torch::zeros({}); };
  EXPECT_THROW(check_same_loss(*model, wrong, Precision::kFp32), Error);
  expect_unchanged();
}

TEST(PlainModel, PutsTheMixersBackWhenForwardThrows) {
  const auto model = make_language_model(with_small_layer_scale("tssa"));
  const auto mixer_of_first = [&] {
    for (const auto& module : model->modules(/*include_self=*/false)) {
      if (auto* block = module->as<Block>()) return block->attn;
    }
    return std::shared_ptr<TokenMixer>();
  };
  const auto before = mixer_of_first();
  PlainModel plain(*model);
  const Tensor outside = torch::full({1, 3}, model->config().vocab, torch::kLong);
  EXPECT_THROW(plain.loss(outside, outside), Error);
  EXPECT_EQ(mixer_of_first(), before);
}

}  // namespace
}  // namespace tost
