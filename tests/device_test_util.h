// What the tests on a GPU share.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cctype>
#include <memory>
#include <string>
#include <vector>

#include "tost/kinds/language/model.h"
#include "tost/torch.h"
#include "tost/train/run_test_util.h"
#include "tost/train/train_task.h"

namespace tost::testing {

// "tssa+gate" as a name that gtest takes.
inline std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

// Away from the first values, so that no zero or one hides anything.
template <class Model>
std::shared_ptr<Model> shaken(std::shared_ptr<Model> model) {
  const torch::NoGradGuard no_grad;
  for (auto& p : model->parameters()) p.add_(torch::randn_like(p) * 0.1);
  return model;
}

// A small model of 40 tokens with the causal mixer of `name`, "mixer" or "mixer+addition".
inline LanguageConfig tiny_language(const std::string& name, int64_t block) {
  const auto at = name.find('+');
  LanguageConfig c;
  c.mixer = name.substr(0, at);
  c.vocab = 40;
  c.block = block;
  c.dim = 24;
  c.depth = 2;
  c.heads = 3;
  if (at == std::string::npos) return c;
  const auto added = name.substr(at + 1);
  auto& o = c.options;
  c.positions = "none";
  o.conv = 3;
  if (added == "gate") o.gate = o.scale_pi = true;
  if (added == "window") o.window = 9;
  if (added == "decay") o.decay = "learned";
  if (added == "values") o.decay = "learned", o.means = "values", o.bias_positions = 5;
  if (added == "none") o.bias_positions = 0;
  if (added == "tokens") o.decay = "fixed", o.means = "tokens";
  if (added == "full") o.decay = "learned", o.gate = true;
  if (added == "hybrid") c.hybrid_every = 2, o.window = 9, o.gate = true;
  return c;
}

// Stops a run after a step, and keeps its messages.
struct StopAt : TrainListener {
  explicit StopAt(int64_t step) : step(step) {}
  void on_step(const StepReport& report) override {
    if (report.step == step) stop = true;
  }
  void on_message(const std::string& message) override { messages.push_back(message); }

  const int64_t step;
  std::atomic<bool> stop = false;
  std::vector<std::string> messages;
};

// All that a run keeps, but for the generators, which differ in kind.
inline void expect_close_runs(const std::filesystem::path& a, const std::filesystem::path& b,
                              double limit) {
  const Checkpoint x = newest_checkpoint(a), y = newest_checkpoint(b);
  ASSERT_EQ(x.parts.size(), y.parts.size());
  for (size_t i = 0; i < x.parts.size(); ++i) {
    for (const auto& [name, tensor] : x.parts[i].tensors) {
      if (name.rfind("random.", 0) == 0) continue;
      const torch::Tensor& other = y.parts[i].tensors.at(name);
      ASSERT_EQ(tensor.sizes(), other.sizes()) << name;
      if (!tensor.is_floating_point()) continue;
      const double error = (tensor - other).abs().max().item<double>();
      EXPECT_LE(error, limit * std::max(1e-3, other.abs().max().item<double>())) << name;
    }
  }
}

inline nlohmann::json vision_values(const std::string& device) {
  nlohmann::json values = tiny_vision_values();
  values.update({{"train_size", 64},
                 {"lr", 1e-3},
                 {"clip", 1},
                 {"outlier_z", 6},
                 {"bound_every_steps", 4},
                 {"device", device}});
  return values;
}

inline nlohmann::json language_values(const TempDir& dir, const std::string& device) {
  nlohmann::json values = tiny_language_values(write_text_of_numbers(dir));
  values.update({{"max_steps", 8},
                 {"evaluate_every_steps", 4},
                 {"sample_every_steps", 4},
                 {"sample_tokens", 20},
                 {"device", device}});
  return values;
}

}  // namespace tost::testing
