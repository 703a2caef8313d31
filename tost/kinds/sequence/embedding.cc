#include "tost/kinds/sequence/embedding.h"

#include <cmath>

#include "tost/nn/token_sums_scope.h"

namespace tost {

using torch::Tensor;

Tensor sinusoidal_positions(int64_t tokens, int64_t dim) {
  const auto fp64 = torch::dtype(torch::kFloat64);
  const auto position = torch::arange(tokens, fp64).unsqueeze(1);
  const auto rate = torch::exp(torch::arange(0, dim, 2, fp64) * (-std::log(10000.0) / double(dim)));
  const auto angle = position * rate;  // [N, (C + 1) / 2]
  return torch::stack({angle.sin(), angle.cos()}, 2)
      .flatten(1)
      .narrow(1, 0, dim)
      .to(torch::kFloat32)
      .contiguous();
}

SequenceEmbedding::SequenceEmbedding(const SequenceConfig& c)
    : sinusoidal_(c.positions == "sinusoidal") {
  tokens = register_module("tokens", std::make_shared<Embedding>(c.vocab, c.dim));
  if (c.positions == "learned") {
    positions = register_module("positions", std::make_shared<Embedding>(position_count(c), c.dim));
  }
  if (c.pool == "class") {
    cls_token = register_parameter("cls_token", torch::zeros({1, 1, c.dim}));
  }
}

void SequenceEmbedding::draw_weights() {
  const torch::NoGradGuard no_grad;
  tokens->weight.normal_();
  if (positions != nullptr) positions->weight.normal_(0, 0.02);
}

Tensor SequenceEmbedding::cached_waves(int64_t count) {
  const std::lock_guard lock(mutex_);
  const auto& weight = tokens->weight;
  if (!waves_.defined() || waves_.size(0) < count || waves_.device() != weight.device() ||
      waves_.dtype() != weight.dtype()) {
    // A table made under inference mode could never serve training later.
    const c10::InferenceMode plain(false);
    waves_ = sinusoidal_positions(count, weight.size(1)).to(weight.options());
  }
  return waves_.narrow(0, 0, count);
}

Tensor SequenceEmbedding::forward(const Tensor& ids) {
  auto x = torch::embedding(tokens->weight, ids, /*padding_idx=*/0);
  int64_t first = first_position(ids.size(1));
  if (cls_token.defined() && first == 0) {
    x = torch::cat({cls_token.expand({ids.size(0), -1, -1}), x}, 1);
  } else if (cls_token.defined()) {
    ++first;
  }
  if (positions != nullptr) x = x + positions->weight.narrow(0, first, x.size(1));
  if (sinusoidal_) x = x + cached_waves(first + x.size(1)).narrow(0, first, x.size(1));
  return x;
}

}  // namespace tost
