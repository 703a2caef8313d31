#include "tost/store/onnx_builder.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace tost {

using std::string;
using torch::Tensor;

string OnnxBuilder::tensor(const string& name, const Tensor& value) {
  const Tensor plain = value.to(torch::kFloat32).contiguous();
  return graph.constant(name, OnnxType::kFloat, plain.sizes().vec(),
                        {static_cast<const char*>(plain.const_data_ptr()), plain.nbytes()});
}

string OnnxBuilder::weight(const string& name) {
  return tensor(name, state_.at(name));
}

string OnnxBuilder::guarded(const string& x) {
  return graph.node("Where", {graph.node("Equal", {x, graph.number(0)}), graph.number(1), x});
}

string OnnxBuilder::reshape(const string& x, const std::vector<int64_t>& shape) {
  return graph.node("Reshape", {x, graph.integers(shape)});
}

string OnnxBuilder::transpose(const string& x, const std::vector<int64_t>& order) {
  return graph.node("Transpose", {x}, {{"perm", order}});
}

string OnnxBuilder::unsqueeze(const string& x, int64_t axis) {
  return graph.node("Unsqueeze", {x, graph.integers({axis})});
}

string OnnxBuilder::sum(const string& x, int64_t axis, bool keep) {
  return graph.node("ReduceSum", {x, graph.integers({axis})}, {{"keepdims", int64_t(keep)}});
}

string OnnxBuilder::concat(const std::vector<string>& parts, int64_t axis) {
  return graph.node("Concat", parts, {{"axis", axis}});
}

string OnnxBuilder::slice(const string& x, int64_t axis, int64_t first, int64_t last) {
  return graph.node("Slice",
                    {x, graph.integers({first}), graph.integers({last}), graph.integers({axis})});
}

string OnnxBuilder::linear(const string& x, const string& name) {
  const string weight = name + ".weight";
  const string turned = tensor(weight + ".T", state_.at(weight).t());
  const string product = graph.node("MatMul", {x, turned});
  return has(name + ".bias") ? add(product, this->weight(name + ".bias")) : product;
}

string OnnxBuilder::layer_norm(const string& x, const string& name, double eps) {
  std::vector<string> inputs{x, weight(name + ".weight")};
  if (has(name + ".bias")) inputs.push_back(weight(name + ".bias"));
  return graph.node("LayerNormalization", inputs, {{"axis", int64_t{-1}}, {"epsilon", eps}});
}

string OnnxBuilder::gelu(const string& x, bool tanh) {
  string inner;
  if (tanh) {
    const string cube = mul(mul(x, x), x);
    const string bent = add(x, mul(cube, graph.number(0.044715f)));
    inner = graph.node("Tanh", {mul(bent, graph.number(float(std::sqrt(2 / std::numbers::pi))))});
  } else {
    inner = graph.node("Erf", {mul(x, graph.number(float(1 / std::numbers::sqrt2)))});
  }
  return mul(mul(x, graph.number(0.5f)), add(inner, graph.number(1)));
}

string OnnxBuilder::silu(const string& x) {
  return mul(x, graph.node("Sigmoid", {x}));
}

string OnnxBuilder::mlp(const string& x, const string& in, const string& out, bool tanh) {
  return linear(gelu(linear(x, in), tanh), out);
}

}  // namespace tost
