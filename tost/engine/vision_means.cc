#include "tost/engine/vision_means.h"

#include <algorithm>
#include <memory>

#include "tost/base/checked.h"
#include "tost/base/text.h"
#include "tost/engine/group_means.h"
#include "tost/engine/threads.h"
#include "tost/kernels/block_cache.h"

namespace tost {
namespace {

constexpr int64_t kMeansRows = 64;  // of a product, on one thread

struct MeansBlock {
  PackedLinear in, router, out;
  MeansWeights means;
};

MeansBlock means_block(const VisionConfig& c, WeightSource& source, const std::string& name,
                       Packing packing) {
  const auto packed = [&](const char* map, int64_t out, int64_t in, bool bias) {
    const StepWeight weight = source.map(name + map, out, in, bias, kernels::WeightType::kFloat32);
    return PackedLinear(weight.values, weight.bias, packing);
  };
  MeansBlock b{packed("c_attn", 3 * c.dim, c.dim, c.qkv_bias),
               packed("router", c.heads, c.dim, /*bias=*/false),
               packed("c_proj", c.dim, c.dim, c.qkv_bias),
               {.heads = c.heads, .dim = c.dim, .from_end = c.heads / 2, .gate = true}};
  b.means.router_bias = source.values(name + "router.bias", {c.heads}).clone();
  b.means.temp = source.values(name + "temp", {c.heads}).clone();
  b.means.scale = source.values(name + "means.scale", {c.dim}).clone();
  b.means.decay = forgetting_rates(source.values(name + "rates.decay", {c.heads}), c.heads);
  return b;
}

// y [rows, outputs] = x Wᵀ + b, a tile of rows at a time.
void multiply(const PackedLinear& map, const float* x, int64_t rows, float* y) {
  const bool narrow = map.packing() == Packing::kBfloat16;
  const int64_t width = map.inputs(), outputs = map.outputs();
  parallel_tasks(divide_up(rows, kMeansRows), [&](int64_t begin, int64_t end) {
    const ScratchBlock scratch{size_t(map.scratch_bytes(kMeansRows))};
    std::vector<uint16_t> rounded(narrow ? size_t(kMeansRows * width) : 0);
    for (int64_t first = begin * kMeansRows; first < std::min(rows, end * kMeansRows);
         first += kMeansRows) {
      const int64_t count = std::min(kMeansRows, rows - first);
      const float* from = x + first * width;
      for (int64_t i = 0; narrow && i < count * width; ++i) {
        rounded[size_t(i)] = to_bfloat16(from[i]);
      }
      map.run({.rows = count,
               .data = narrow ? static_cast<const void*>(rounded.data()) : from,
               .stride = width},
              {.data = y + first * outputs, .stride = outputs}, scratch.data());
    }
    PackedLinear::release();
  });
}

void mix(const MeansBlock& block, const Array& x, float* y) {
  const int64_t batch = x.size(0), tokens = x.size(1), rows = batch * tokens;
  const int64_t dim = block.means.dim;
  Array parts = Array::empty({rows, 3 * dim}), pi = Array::empty({rows, block.means.heads});
  Array mixed = Array::empty({rows, dim});
  multiply(block.in, x.data(), rows, parts.mutable_data());
  multiply(block.router, x.data(), rows, pi.mutable_data());
  const ScratchBlock workspace(
      size_t(mix_means_workspace(block.means, batch, tokens, /*stateful=*/false)));
  mix_means(block.means,
            {.batch = batch,
             .tokens = tokens,
             .parts = parts.data(),
             .pi = pi.mutable_data(),
             .y = mixed.mutable_data()},
            workspace.data(), engine_parallel);
  multiply(block.out, mixed.data(), rows, y);
}

}  // namespace

VisionMixer means_mixers(const VisionConfig& config, WeightSource& source, Packing products) {
  const bool narrow = products != Packing::kFloat32 && multiplies_as_packed(Packing::kBfloat16);
  const auto blocks = std::make_shared<std::vector<MeansBlock>>();
  for (int64_t i = 0; i < config.depth; ++i) {
    blocks->push_back(means_block(config, source, cat("blocks.", i, ".attn."),
                                  narrow ? Packing::kBfloat16 : Packing::kFloat32));
  }
  return [blocks](int64_t block, const Array& x, float* y) { mix((*blocks)[size_t(block)], x, y); };
}

}  // namespace tost
