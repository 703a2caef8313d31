#include "tost/engine/language_weights.h"

#include <algorithm>
#include <cstring>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/engine/mixer_names.h"

namespace tost {
namespace {

using kernels::WeightType;

constexpr float kEps = 1e-5f;  // of every norm of a language model

// As nn/causal_tssa.h.
void add_tssa(LanguageBlockWeights& b, WeightSource& source, const std::string& mixer,
              const LanguageConfig& c, WeightType type) {
  const int64_t positions = c.options.bias_positions < 0 ? c.block : c.options.bias_positions;
  b.in = source.map(mixer + "c_attn", c.dim, c.dim, c.bias, type);
  if (c.options.gate) b.gate = source.map(mixer + "gate", c.dim, c.dim, c.bias, type);
  if (c.options.conv > 0) b.filter = source.values(mixer + "conv.weight", {c.options.conv, c.dim});
  b.temp = source.values(mixer + "temp", {c.heads, 1});
  b.denom_bias = source.values(mixer + "denom_bias", {c.heads, positions, 1});
  b.scale = c.options.scale_pi ? double(c.heads) : 1.0;
}

// As nn/causal_means.h.
void add_means(LanguageBlockWeights& b, WeightSource& source, const std::string& mixer,
               const LanguageConfig& c, WeightType type) {
  b.in = source.map(mixer + "c_attn", (c.options.gate ? 3 : 2) * c.dim, c.dim, c.bias, type);
  b.router = source.map(mixer + "router", c.heads, c.dim, /*bias=*/false, type);
  b.means.heads = c.heads;
  b.means.dim = c.dim;
  b.means.gate = c.options.gate;
  b.means.router_bias = source.values(mixer + "router.bias", {c.heads});
  b.means.temp = source.values(mixer + "temp", {c.heads});
  b.means.scale = source.values(mixer + "means.scale", {c.dim});
  if (c.options.conv > 0) {
    b.means.filter = source.values(mixer + "conv.weight", {c.options.conv, c.dim});
  }
  Array decay;
  if (c.options.decay != "none") decay = source.values(mixer + "rates.decay", {c.heads});
  b.means.decay = forgetting_rates(decay, c.heads);
}

// As nn/causal_delta.h.
void add_delta(LanguageBlockWeights& b, WeightSource& source, const std::string& mixer,
               const LanguageConfig& c, WeightType type) {
  const auto& o = c.options;
  auto& d = b.delta;
  d.heads = c.heads;
  d.dim = c.dim;
  d.steps = o.delta_steps;
  d.beta_range = float(o.beta_range);
  b.in = source.map(mixer + "c_attn", d.parts() * c.dim, c.dim, c.bias, type);
  b.router = source.map(mixer + "beta", d.steps * c.heads, c.dim, /*bias=*/true, type);
  if (o.gate) b.gate = source.map(mixer + "gate", c.dim, c.dim, c.bias, type);
  if (o.decay == "learned") {
    b.forget = source.map(mixer + "forget", c.heads, c.dim, /*bias=*/false, type);
  }
  if (o.decay != "none") d.decay = source.values(mixer + "decay", {c.heads});
  if (o.conv > 0) d.filter = source.values(mixer + "conv.weight", {o.conv, d.parts() * c.dim});
  d.norm = source.values(mixer + "norm", {c.dim / c.heads});
}

BlockMixer kind_of(const LanguageConfig& c, const std::string& name) {
  const auto& o = c.options;
  if (name == "means") return BlockMixer::kMeans;
  if (name == "delta") return BlockMixer::kDelta;
  if (name == "tssa" && o.decay == "none" && o.means == "none") return BlockMixer::kTssa;
  // In hybrids softmax has no gate.
  return name == "softmax" && (!o.gate || c.hybrid_every > 0) ? BlockMixer::kSoftmax
                                                              : BlockMixer::kModule;
}

}  // namespace

BlockMixer mixer_kind(const LanguageConfig& c, int64_t index) {
  return kind_of(c, mixer_of_block(c, index));
}

bool runs_without_modules(const LanguageConfig& c) {
  const auto& o = c.options;
  bool tssa = false, delta = false;
  for (const std::string& name : {c.mixer, c.hybrid_every > 0 ? c.hybrid_mixer : c.mixer}) {
    const BlockMixer kind = kind_of(c, name);
    if (kind == BlockMixer::kSoftmax || kind == BlockMixer::kModule) return false;
    tssa = tssa || kind == BlockMixer::kTssa;
    delta = delta || kind == BlockMixer::kDelta;
  }
  if (!tssa && (o.bias_positions != -1 || o.scale_pi)) return false;
  if (!delta && (o.beta_range != 1 || o.delta_steps != 1)) return false;
  return o.means == "none" && o.window == 0 && o.attention_dropout == -1;
}

LanguageWeights::LanguageWeights(const LanguageConfig& model_config, WeightSource& source,
                                 Precision precision, std::shared_ptr<ModuleMixers> with_modules)
    : config(model_config), type(facts_of(precision).maps), modules(std::move(with_modules)) {
  const auto& c = config;
  if (modules == nullptr && !runs_without_modules(c)) {
    fail_data("A mixer of this model (", c.mixer, c.hybrid_every > 0 ? ", " + c.hybrid_mixer : "",
              ") or an addition to it needs the full program; build it by `make`.");
  }
  mlp_hidden = hidden_width(c.dim, c.mlp_ratio);
  if (c.activation == "gelu-tanh") activation = kernels::Activation::kGeluTanh;
  table = source.map("transformer.wte", c.vocab, c.dim, false, facts_of(precision).tables);
  if (c.positions == "learned") {
    positions = source.values("transformer.wpe.weight", {c.block, c.dim});
  }
  for (int64_t i = 0; i < c.depth; ++i) {
    const std::string block = cat("transformer.h.", i, "."), mixer = block + "attn.";
    LanguageBlockWeights b{.kind = mixer_kind(c, i)};
    b.norm1 = source.norm(block + "ln_1", c.dim, c.bias, kEps);
    b.norm2 = source.norm(block + "ln_2", c.dim, c.bias, kEps);
    b.gamma1 = source.values(block + "gamma1", {c.dim});
    b.gamma2 = source.values(block + "gamma2", {c.dim});
    b.fc = source.map(block + "mlp.c_fc", mlp_hidden, c.dim, c.bias, type);
    b.proj = source.map(block + "mlp.c_proj", c.dim, mlp_hidden, c.bias, type);
    if (b.kind == BlockMixer::kTssa) add_tssa(b, source, mixer, c, type);
    if (b.kind == BlockMixer::kMeans) add_means(b, source, mixer, c, type);
    if (b.kind == BlockMixer::kDelta) add_delta(b, source, mixer, c, type);
    if (b.kind == BlockMixer::kSoftmax) {
      b.in = source.map(mixer + "c_attn", 3 * c.dim, c.dim, c.bias, type);
    }
    if (b.kind != BlockMixer::kModule) {
      b.out = source.map(mixer + "c_proj", c.dim, c.dim, c.bias, type);
    }
    blocks.push_back(std::move(b));
  }
  norm = source.norm("transformer.ln_f", c.dim, c.bias, kEps);
}

void LanguageWeights::gather() {
  std::vector<Array*> parts;
  const auto add = [&parts](StepWeight& weight) {
    for (Array* part : {&weight.values, &weight.scales}) {
      if (part->defined()) parts.push_back(part);
    }
  };
  for (auto& b : blocks) {
    for (auto* weight : b.maps()) add(*weight);
  }
  add(table);
  int64_t bytes = 0;
  for (const Array* part : parts) bytes += aligned(part->bytes());
  Array all = Array::empty({bytes}, TorchDtype::kUInt8);
  char* to = all.mutable_data<char>();
  for (Array* part : parts) {
    const int64_t size = part->bytes();
    std::memcpy(to, part->data<char>(), size_t(size));
    *part = Array(part->shape(), part->dtype(), {all.owner(), to});
    to += aligned(size);
  }
}

void LanguageWeights::embed(int64_t id, int64_t position, float* to) const {
  table.row(id, to);
  if (!positions.defined()) return;
  const int64_t dim = positions.size(1);
  const float* place = positions.data() + position * dim;
  for (int64_t i = 0; i < dim; ++i) to[i] += place[i];
}

int64_t LanguageWeights::step_bytes() const {
  int64_t bytes = table.bytes() + norm.weight.bytes();
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto& b = blocks[i];
    for (const auto* w : b.maps()) bytes += w->bytes();
    bytes += b.means.bytes() + b.delta.bytes() + b.filter.bytes() + b.norm1.weight.bytes() +
             b.norm2.weight.bytes() + b.gamma1.bytes() + b.gamma2.bytes();
    if (b.kind == BlockMixer::kModule) bytes += modules->bytes(int64_t(i));
  }
  return bytes;
}

void check_ids(const LanguageConfig& config, const int64_t* ids, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (ids[i] >= 0 && ids[i] < config.vocab) continue;
    fail_data("Token id ", ids[i], " is outside the model's vocabulary of ", config.vocab,
              "; was the text cut by another tokenizer?");
  }
}

void check_position(const LanguageConfig& config, int64_t position, int64_t tokens) {
  if (tokens <= max_context(config) - position) return;
  fail_data("The model has learned positions for ", config.block, " tokens and cannot read token ",
            position + tokens, "; shorten the text, or train a model with positions 'none'.");
}

}  // namespace tost
