// The parts of networks as ONNX operators, on weights by their names. Opset 17 has no GELU, so it
// is written by Erf.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tost/io/onnx_graph.h"
#include "tost/nn/state_dict.h"

namespace tost {

// Values are named as in OnnxGraph. Floats everywhere but for indices.
class OnnxBuilder {
 public:
  // `state`: float32 weights on the CPU.
  OnnxBuilder(std::string name, StateDict state)
      : graph(std::move(name)), state_(std::move(state)) {}

  // A weight by its name, or any tensor under a name of its own.
  std::string weight(const std::string& name);
  std::string tensor(const std::string& name, const torch::Tensor& value);
  bool has(const std::string& name) const { return state_.count(name) != 0; }
  const torch::Tensor& at(const std::string& name) const { return state_.at(name); }

  std::string add(const std::string& a, const std::string& b) { return graph.node("Add", {a, b}); }
  std::string sub(const std::string& a, const std::string& b) { return graph.node("Sub", {a, b}); }
  std::string mul(const std::string& a, const std::string& b) { return graph.node("Mul", {a, b}); }
  std::string div(const std::string& a, const std::string& b) { return graph.node("Div", {a, b}); }
  // A sum of squares or of memberships to divide by, 1 where it is 0. The definitions add 1e-8 or
  // take at least 1e-12, which float16 cannot hold; what is divided is 0 there, too.
  std::string guarded(const std::string& x);
  // 0 keeps a side, -1 is found.
  std::string reshape(const std::string& x, const std::vector<int64_t>& shape);
  std::string transpose(const std::string& x, const std::vector<int64_t>& order);
  std::string unsqueeze(const std::string& x, int64_t axis);
  std::string sum(const std::string& x, int64_t axis, bool keep);
  std::string concat(const std::vector<std::string>& parts, int64_t axis);
  // Elements [first, last) of an axis; negative ones count from the end.
  std::string slice(const std::string& x, int64_t axis, int64_t first, int64_t last);

  // Modules under `name`: x Wᵀ + b over the last axis, LayerNorm, and an MLP of two maps.
  std::string linear(const std::string& x, const std::string& name);
  std::string layer_norm(const std::string& x, const std::string& name, double eps);
  std::string gelu(const std::string& x, bool tanh = false);
  std::string silu(const std::string& x);
  std::string mlp(const std::string& x, const std::string& in, const std::string& out,
                  bool tanh = false);

  OnnxGraph graph;

 private:
  StateDict state_;
};

}  // namespace tost
