// The official language code's numbers: logits, block outputs, memberships, loss, every gradient.
#include <gtest/gtest.h>

#include <string>

#include "tests/testing/shared.h"
#include "tost/kinds/language/model.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/safetensors.h"

namespace tost {
namespace language_parity_test {

struct Fixture {
  const char* folder;
  const char* mixer;
  bool bias;
};

void PrintTo(const Fixture& fixture, std::ostream* out) {
  *out << fixture.folder;
}

class LanguageParity : public ::testing::TestWithParam<Fixture> {
 protected:
  void load() {
    const auto folder = testing::shared_path(std::string("parity/") + GetParam().folder);
    expected_ = load_safetensors(folder / "expected.safetensors").tensors;
    LanguageConfig c;
    c.mixer = GetParam().mixer;
    c.bias = GetParam().bias;
    c.vocab = 131;
    c.block = 96;
    c.dim = 32;
    c.depth = 2;
    c.heads = 4;
    model_ = make_language_model(c, WeightInit::kNone);
    load_state_dict(*model_, load_safetensors(folder / "state.safetensors").tensors);
    model_->eval();
  }

  // Within 1e-5 of the largest absolute value; remembers the worst ratio.
  void expect_close(const torch::Tensor& found, const std::string& name) {
    ASSERT_TRUE(expected_.count(name)) << name;
    const auto& wanted = expected_.at(name);
    ASSERT_EQ(found.numel(), wanted.numel()) << name;
    const double scale = wanted.abs().max().item<double>();
    const double error = (found.detach().view_as(wanted) - wanted).abs().max().item<double>();
    EXPECT_LE(error, 1e-5 * scale) << name << ", largest absolute value " << scale;
    if (scale > 0) worst_ = std::max(worst_, error / scale);
  }

  StateDict expected_;
  std::shared_ptr<LanguageModel> model_;
  double worst_ = 0;
};

TEST_P(LanguageParity, LogitsBlockOutputsAndMemberships) {
  TOST_SHARED_OR_SKIP(folder, std::string("parity/") + GetParam().folder);
  load();
  LanguageTrace trace;
  const auto hidden = model_->hidden(expected_.at("idx"), nullptr, &trace);
  expect_close(model_->logits(hidden), "logits");
  ASSERT_EQ(trace.blocks.size(), 2u);
  for (size_t i = 0; i < trace.blocks.size(); ++i) {
    expect_close(trace.blocks[i].output, "block." + std::to_string(i) + ".output");
    const auto name = "block." + std::to_string(i) + ".membership";
    if (expected_.count(name)) expect_close(trace.blocks[i].mixer.pi, name);
  }
  RecordProperty("worst", std::to_string(worst_));
}

TEST_P(LanguageParity, LossAndEveryGradient) {
  TOST_SHARED_OR_SKIP(folder, std::string("parity/") + GetParam().folder);
  load();
  const auto loss = model_->loss(expected_.at("idx"), expected_.at("targets"));
  expect_close(loss, "loss");
  loss.backward();
  size_t compared = 0;
  for (const auto& item : model_->named_parameters()) {
    const auto name = "grad." + item.key();
    if (!expected_.count(name)) continue;
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    expect_close(item.value().grad(), name);
    ++compared;
  }
  size_t wanted = 0;
  for (const auto& item : expected_) wanted += item.first.rfind("grad.", 0) == 0;
  EXPECT_EQ(compared, wanted);
  RecordProperty("worst", std::to_string(worst_));
}

INSTANTIATE_TEST_SUITE_P(Official, LanguageParity,
                         ::testing::Values(Fixture{"lang_tssa", "tssa", false},
                                           Fixture{"lang_tssa_bias_short", "tssa", true},
                                           Fixture{"lang_softmax", "softmax", false}),
                         [](const auto& info) { return std::string(info.param.folder); });

}  // namespace language_parity_test
}  // namespace tost
