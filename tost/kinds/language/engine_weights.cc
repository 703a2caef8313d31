#include "tost/kinds/language/engine_weights.h"

#include "tost/base/error.h"
#include "tost/nn/block_pass.h"
#include "tost/nn/causal_attention.h"
#include "tost/nn/causal_means.h"
#include "tost/nn/causal_tssa.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/caching_allocator.h"

namespace tost {

using kernels::WeightType;
using torch::Tensor;

namespace {

Tensor plain(const Tensor& x) {
  return x.defined() ? x.detach().to(torch::kFloat).contiguous() : x;
}

// The weight rounded as a step of this type sees it.
Tensor rounded_weight(const Tensor& weight, WeightType type) {
  return StepWeight(weight, {}, type).rounded();
}

BlockMixer mixer_kind(const TokenMixer& mixer, const LanguageConfig& config) {
  const auto& o = config.options;
  const auto* tssa = dynamic_cast<const CausalTssaMixer*>(&mixer);
  if (tssa != nullptr && o.decay == "none" && tssa->means == nullptr && tssa->conv == nullptr &&
      tssa->gate == nullptr) {
    return BlockMixer::kTssa;
  }
  if (dynamic_cast<const CausalMeansMixer*>(&mixer) != nullptr) return BlockMixer::kMeans;
  const auto* softmax = dynamic_cast<const CausalSoftmaxMixer*>(&mixer);
  return softmax != nullptr && softmax->gate == nullptr ? BlockMixer::kSoftmax
                                                        : BlockMixer::kModule;
}

// A copy on rounded weights where whole mixers of the model will be called; else null.
std::shared_ptr<LanguageModel> rounded_copy(const LanguageModel& model, WeightType type) {
  bool calls = false;
  for (const auto& block : model.blocks()) {
    calls |= mixer_kind(*block->attn, model.config()) == BlockMixer::kModule;
  }
  if (!calls || type == WeightType::kFloat32) return nullptr;
  const torch::NoGradGuard no_grad;
  auto copy = make_language_model(model.config(), WeightInit::kNone);
  load_state_dict(*copy, state_dict(model));
  const auto linear = linear_weight_names(*copy);
  for (auto& [name, tensor] : state_dict(*copy)) {
    if (linear.count(name) != 0) tensor.copy_(rounded_weight(tensor, type));
  }
  copy->eval();
  return copy;
}

// The type of its linear maps, once all weights that are to become integers are known to be finite.
WeightType checked_type(const LanguageModel& model, const PrecisionFacts& facts) {
  if (facts.modules) return facts.maps;
  auto names = linear_weight_names(model);
  names.merge(token_table_names(model));
  for (const auto& [name, tensor] : state_dict(model)) {
    if (names.count(name) != 0) check_roundable(tensor, name);
  }
  return facts.maps;
}

}  // namespace

StepWeight::StepWeight(const Tensor& weight, const Tensor& with_bias, WeightType weight_type)
    : type(weight_type), inputs(weight.size(1)), bias(plain(with_bias)) {
  const auto wide = plain(weight);
  if (type == WeightType::kFloat32) {
    values = wide;
  } else if (type == WeightType::kBfloat16) {
    values = wide.to(torch::kBFloat16);
    if (bias.defined()) bias = bias.to(torch::kBFloat16);
  } else {
    const auto q = step_rows(quantize(wide, type));
    values = q.values;
    scales = q.scales;
  }
}

int64_t StepWeight::bytes() const {
  return int64_t(values.nbytes()) + (scales.defined() ? int64_t(scales.nbytes()) : 0) +
         (bias.defined() ? int64_t(bias.nbytes()) : 0);
}

void StepWeight::row(int64_t index, float* to) const {
  if (type == WeightType::kFloat32) {
    std::copy_n(values.const_data_ptr<float>() + index * inputs, inputs, to);
  } else if (type == WeightType::kBfloat16) {
    const auto* from = values.const_data_ptr<at::BFloat16>() + index * inputs;
    for (int64_t i = 0; i < inputs; ++i) to[i] = from[i];
  } else {
    read_step_row(type, values, scales, inputs, index, to);
  }
}

Tensor StepWeight::rounded() const {
  if (type == WeightType::kFloat32) return values;
  auto wide = torch::empty({outputs(), inputs});
  auto* to = wide.mutable_data_ptr<float>();
  at::parallel_for(0, outputs(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) row(o, to + o * inputs);
  });
  return wide;
}

NormWeight::NormWeight(const LayerNorm& norm)
    : weight(plain(norm.weight)), bias(plain(norm.bias)) {}

LanguageBlockWeights::LanguageBlockWeights(const Block& block, const LanguageConfig& config,
                                           WeightType type)
    : kind(mixer_kind(*block.attn, config)),
      norm1(*block.norm1),
      norm2(*block.norm2),
      fc(block.mlp->fc1->weight, block.mlp->fc1->bias, type),
      proj(block.mlp->fc2->weight, block.mlp->fc2->bias, type),
      gamma1(plain(block.gamma1)),
      gamma2(plain(block.gamma2)),
      mixer(block.attn) {
  if (kind == BlockMixer::kTssa) {
    const auto& tssa = dynamic_cast<const CausalTssaMixer&>(*mixer);
    in = {tssa.c_attn->weight, tssa.c_attn->bias, type};
    out = {tssa.c_proj->weight, tssa.c_proj->bias, type};
    temp = plain(tssa.temp);
    denom_bias = plain(tssa.denom_bias);
    scale = config.options.scale_pi ? double(config.heads) : 1.0;
  } else if (kind == BlockMixer::kMeans) {
    const auto& groups = dynamic_cast<const CausalMeansMixer&>(*mixer);
    in = {groups.c_attn->weight, groups.c_attn->bias, type};
    out = {groups.c_proj->weight, groups.c_proj->bias, type};
    router = {groups.router->weight, {}, type};
    means = MeansWeights(groups);
  } else if (kind == BlockMixer::kSoftmax) {
    const auto& attention = dynamic_cast<const CausalSoftmaxMixer&>(*mixer);
    in = {attention.c_attn->weight, attention.c_attn->bias, type};
    out = {attention.c_proj->weight, attention.c_proj->bias, type};
  }
}

LanguageWeights::LanguageWeights(const LanguageModel& model, Precision precision)
    : config(model.config()),
      type(checked_type(model, facts_of(precision))),
      table(model.token_table(), {}, facts_of(precision).tables),
      positions(plain(model.position_table())),
      norm(model.final_norm()) {
  const auto copy = rounded_copy(model, type);
  const auto& from = copy != nullptr ? copy->blocks() : model.blocks();
  for (const auto& block : from) blocks.emplace_back(*block, config, type);
  mlp_hidden = blocks.empty() ? 0 : blocks[0].fc.outputs();
  if (config.activation == "gelu-tanh") activation = kernels::Activation::kGeluTanh;
  if (type != WeightType::kFloat32) gather();
}

// One block for all weights: huge pages, which a stream of many small tensors would not get.
void LanguageWeights::gather() {
  std::vector<Tensor*> parts;
  const auto add = [&parts](StepWeight& weight) {
    for (Tensor* part : {&weight.values, &weight.scales}) {
      if (part->defined()) parts.push_back(part);
    }
  };
  for (auto& b : blocks) {
    for (auto* weight : {&b.in, &b.router, &b.out, &b.fc, &b.proj}) add(*weight);
  }
  add(table);
  const auto room = [](const Tensor& x) { return (int64_t(x.nbytes()) + 63) / 64 * 64; };
  int64_t bytes = 0;
  for (const Tensor* part : parts) bytes += room(*part);
  const auto all = empty_cached({bytes}, torch::kByte);
  int64_t at = 0;
  for (Tensor* part : parts) {
    const auto place = all.narrow(0, at, int64_t(part->nbytes())).view(part->scalar_type());
    at += room(*part);
    *part = place.view(part->sizes()).copy_(*part);
  }
}

void check_state(const Tensor& state, at::IntArrayRef sizes, torch::ScalarType type) {
  if (state.is_cpu() && state.scalar_type() == type && state.sizes() == sizes) return;
  fail_usage("The state of ", state.scalar_type(), " ", state.sizes(), " is not one of ", sizes[0],
             " texts of this model; read the same number of texts on, or start again.");
}

void LanguageWeights::embed(int64_t id, int64_t position, float* to) const {
  table.row(id, to);
  if (!positions.defined()) return;
  const int64_t dim = positions.size(1);
  const float* place = positions.const_data_ptr<float>() + position * dim;
  for (int64_t i = 0; i < dim; ++i) to[i] += place[i];
}

int64_t LanguageWeights::step_bytes() const {
  int64_t bytes = table.bytes() + int64_t(norm.weight.nbytes());
  for (const auto& b : blocks) {
    for (const auto* w : {&b.in, &b.router, &b.out, &b.fc, &b.proj}) {
      if (w->values.defined()) bytes += w->bytes();
    }
    bytes += b.means.bytes();
    if (b.kind == BlockMixer::kModule) {
      for (const auto& parameter : b.mixer->parameters()) bytes += int64_t(parameter.nbytes());
    }
    bytes += int64_t(b.norm1.weight.nbytes() + b.norm2.weight.nbytes() + b.gamma1.nbytes() +
                     b.gamma2.nbytes());
  }
  return bytes;
}

}  // namespace tost
