#include "tost/engine/language_weights.h"

#include <algorithm>
#include <cstring>

#include "tost/base/checked.h"
#include "tost/base/error.h"
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

// As nn/causal_attention.h.
void add_softmax(LanguageBlockWeights& b, WeightSource& source, const std::string& mixer,
                 const LanguageConfig& c, WeightType type) {
  const auto& o = c.options;
  b.softmax = {.heads = c.heads, .dim = c.dim, .window = o.window};
  b.in = source.map(mixer + "c_attn", 3 * c.dim, c.dim, c.bias, type);
  // In hybrids softmax has no gate.
  if (o.gate && c.hybrid_every == 0) {
    b.gate = source.map(mixer + "gate", c.dim, c.dim, c.bias, type);
  }
  if (o.conv > 0) b.softmax.filter = source.values(mixer + "conv.weight", {o.conv, 3 * c.dim});
}

struct MixerOfEngine {
  const char* name;
  BlockMixer kind;
  void (*add)(LanguageBlockWeights&, WeightSource&, const std::string&, const LanguageConfig&,
              WeightType);
};
constexpr MixerOfEngine kMixers[] = {{"tssa", BlockMixer::kTssa, add_tssa},
                                     {"means", BlockMixer::kMeans, add_means},
                                     {"delta", BlockMixer::kDelta, add_delta},
                                     {"softmax", BlockMixer::kSoftmax, add_softmax}};

const MixerOfEngine* find_mixer(const std::string& name) {
  const auto* found = std::find_if(std::begin(kMixers), std::end(kMixers),
                                   [&](const MixerOfEngine& m) { return m.name == name; });
  return found == std::end(kMixers) ? nullptr : found;
}

}  // namespace

bool engine_has(const LanguageConfig& c) {
  const auto& o = c.options;
  const std::string& other = c.hybrid_every > 0 ? c.hybrid_mixer : c.mixer;
  if (find_mixer(c.mixer) == nullptr || find_mixer(other) == nullptr) return false;
  const auto has = [&](const char* name) { return c.mixer == name || other == name; };
  const bool tssa = has("tssa"), delta = has("delta"), means = has("means");
  // Decay and means of TSSA are not in the engine.
  if (o.means != "none" || (o.decay != "none" && (tssa || !(means || delta)))) return false;
  if (!tssa && (o.bias_positions != -1 || o.scale_pi)) return false;
  if (!delta && (o.beta_range != 1 || o.delta_steps != 1)) return false;
  if (!has("softmax") && (o.window != 0 || o.attention_dropout != -1)) return false;
  return !o.gate || c.hybrid_every == 0 || tssa || delta || means;
}

LanguageWeights::LanguageWeights(const LanguageConfig& model_config, WeightSource& source,
                                 Precision precision)
    : config(model_config), type(facts_of(precision).maps) {
  const auto& c = config;
  if (!engine_has(c)) {
    fail_data("A mixer of this model (", c.mixer, c.hybrid_every > 0 ? ", " + c.hybrid_mixer : "",
              ") or an addition to it needs the full program; build it by `make`.");
  }
  mlp_hidden = hidden_width(c.dim, c.mlp_ratio);
  if (c.activation == "gelu-tanh") activation = kernels::Activation::kGeluTanh;
  table = source.map("transformer.wte", c.vocab, c.dim, false, facts_of(precision).tables);
  table.lay_out();
  if (c.positions == "learned") {
    positions = source.values("transformer.wpe.weight", {c.block, c.dim});
  }
  for (int64_t i = 0; i < c.depth; ++i) {
    const std::string block = cat("transformer.h.", i, "."), mixer = block + "attn.";
    const auto& own = *find_mixer(mixer_of_block(c, i));
    LanguageBlockWeights b{.kind = own.kind};
    b.norm1 = source.norm(block + "ln_1", c.dim, c.bias, kEps);
    b.norm2 = source.norm(block + "ln_2", c.dim, c.bias, kEps);
    b.gamma1 = source.values(block + "gamma1", {c.dim});
    b.gamma2 = source.values(block + "gamma2", {c.dim});
    b.fc = source.map(block + "mlp.c_fc", mlp_hidden, c.dim, c.bias, type);
    b.proj = source.map(block + "mlp.c_proj", c.dim, mlp_hidden, c.bias, type);
    own.add(b, source, mixer, c, type);
    b.out = source.map(mixer + "c_proj", c.dim, c.dim, c.bias, type);
    for (auto* map : b.maps()) map->lay_out();
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
  for (const auto& b : blocks) {
    for (const auto* w : b.maps()) bytes += w->bytes();
    bytes += b.means.bytes() + b.delta.bytes() + b.softmax.filter.bytes() + b.filter.bytes() +
             b.norm1.weight.bytes() + b.norm2.weight.bytes() + b.gamma1.bytes() + b.gamma2.bytes();
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
