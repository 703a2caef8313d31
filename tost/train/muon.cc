#include "tost/train/muon.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tost/base/text.h"
#include "tost/nn/block.h"

namespace tost {

using torch::Tensor;

namespace {

// The number of matrices in a weight: queries, keys and values are one weight [parts C, C].
int64_t parts_of(const std::string& name, const Tensor& weight) {
  const bool joint = ends_with(name, "c_attn.weight") || ends_with(name, "qkv.weight");
  return joint ? std::max<int64_t>(1, weight.size(0) / weight.size(1)) : 1;
}

// The weights that Muon updates, and the number of parts of each.
std::map<const void*, int64_t> matrices_of(const torch::nn::Module& model) {
  std::map<const void*, int64_t> found;
  for (const auto& block : blocks_of(model)) {
    const int64_t width = block->norm1->weight.size(0);
    for (const auto& item : block->named_modules()) {
      const auto* map = dynamic_cast<const Linear*>(item.value().get());
      if (map == nullptr || 2 * std::min(map->weight.size(0), map->weight.size(1)) < width)
        continue;
      found[map->weight.unsafeGetTensorImpl()] = parts_of(item.key() + ".weight", map->weight);
    }
  }
  return found;
}

}  // namespace

Tensor orthogonal(const Tensor& x) {
  const bool tall = x.size(0) > x.size(1);
  Tensor y = tall ? x.t() : x;
  y = y / y.norm().clamp_min(1e-7);
  for (int i = 0; i < 5; ++i) {
    const Tensor gram = torch::matmul(y, y.t());
    const Tensor factor = torch::addmm(gram, gram, gram, /*beta=*/-4.7750, /*alpha=*/2.0315);
    y = torch::addmm(y, factor, y, /*beta=*/3.4445);
  }
  return tall ? y.t() : y;
}

void muon_step(const MuonStep& options, const Tensor& weight, const Tensor& buffer,
               const Tensor& gradient) {
  const torch::NoGradGuard no_grad;
  Tensor g = gradient.to(weight.scalar_type());
  if (options.gradient_scale != 1) g = g * options.gradient_scale;
  buffer.lerp_(g, 1 - options.momentum);
  const auto ahead = g.lerp(buffer, options.momentum).chunk(options.parts);
  weight.mul_(1 - options.lr * options.weight_decay);
  const auto parts = weight.chunk(options.parts);
  for (size_t i = 0; i < parts.size(); ++i) {
    const double longer = double(std::max(parts[i].size(0), parts[i].size(1)));
    parts[i].add_(orthogonal(ahead[i]), -0.2 * std::sqrt(longer) * options.lr);
  }
}

std::vector<ParamGroup> with_muon(const torch::nn::Module& model, std::vector<ParamGroup> groups) {
  const auto matrices = matrices_of(model);
  std::vector<ParamGroup> all;
  for (const ParamGroup& group : groups) {
    ParamGroup rest{.names = {}, .params = {}, .weight_decay = group.weight_decay};
    ParamGroup own = rest;
    for (size_t i = 0; i < group.params.size(); ++i) {
      const auto found = matrices.find(group.params[i].unsafeGetTensorImpl());
      ParamGroup& to = found == matrices.end() ? rest : own;
      to.names.push_back(group.names[i]);
      to.params.push_back(group.params[i]);
      if (found != matrices.end()) to.muon_parts.push_back(found->second);
    }
    all.push_back(std::move(rest));
    if (!own.params.empty()) all.push_back(std::move(own));
  }
  return all;
}

}  // namespace tost
