// What the tests on a GPU share.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cctype>
#include <memory>
#include <string>
#include <vector>

#include "tost/kinds/language/config.h"
#include "tost/torch.h"
#include "tost/train/train_listener.h"

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

}  // namespace tost::testing
