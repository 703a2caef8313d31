#include "tost/nn/block_weights.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/nn/mixer_tssa.h"

namespace tost {

using torch::Tensor;

bool packable(const torch::nn::Module& model) {
  const auto parameters = model.parameters();
  return std::all_of(parameters.begin(), parameters.end(), [](const Tensor& each) {
    return each.is_cpu() && each.scalar_type() == torch::kFloat;
  });
}

namespace {

PackedLinear packed_named(const Linear& linear, Packing packing, const std::string& name) {
  if (packing == Packing::kInt8) check_roundable(linear.weight, name + ".weight");
  return packed_map(linear, packing);
}

// The same times gamma, its bias apart in `shift`.
PackedLinear packed_onto_stream(const Linear& linear, const Tensor& gamma, Packing packing,
                                const std::string& name, Tensor& shift) {
  if (packing == Packing::kInt8) check_roundable(linear.weight, name + ".weight");
  shift = weight_values(linear.bias * gamma);
  return {linear.weight * gamma.unsqueeze(1), Tensor(), packing};
}

}  // namespace

Tensor weight_values(const Tensor& parameter) {
  return parameter.defined() ? parameter.detach().to(torch::kFloat).contiguous().clone() : Tensor();
}

NormWeights norm_weights(const LayerNorm& norm, float factor) {
  NormWeights weights{weight_values(norm.weight * factor), {}};
  if (norm.bias.defined()) weights.bias = weight_values(norm.bias * factor);
  return weights;
}

PackedLinear packed_map(const Linear& linear, Packing packing) {
  return {linear.weight, linear.bias, packing};
}

Packing packing_of(const std::string& precision) {
  if (precision == "fp32") return Packing::kFloat32;
  if (precision == "bf16") return Packing::kBfloat16;
  if (precision == "int8") return Packing::kInt8;
  fail_usage("Unknown precision '", precision, "' (known: fp32, bf16, int8).");
}

void check_roundable(const Tensor& weight, const std::string& name) {
  if (weight.isfinite().all().item<bool>()) return;
  fail_data("Tensor '", name, "' has values that are not finite and cannot become whole numbers; ",
            "use fp32 or bf16, or an earlier checkpoint.");
}

TokenBlockWeights token_block_weights(const Block& block, Packing packing,
                                      const std::string& name) {
  TokenBlockWeights weights;
  weights.norm1 = norm_weights(*block.norm1);
  weights.norm2 = norm_weights(*block.norm2);
  weights.fc1 = packed_named(*block.mlp->fc1, packing, name + "mlp.fc1");
  weights.fc2 = packed_onto_stream(*block.mlp->fc2, block.gamma2, packing, name + "mlp.fc2",
                                   weights.fc2_shift);
  weights.gamma1 = weight_values(block.gamma1);
  weights.gamma2 = weight_values(block.gamma2);
  weights.module = block.attn;
  const auto* tssa = dynamic_cast<const TssaMixer*>(block.attn.get());
  if (tssa == nullptr && dynamic_cast<const NoMixer*>(block.attn.get()) == nullptr) return weights;
  const auto& projections = static_cast<const TokenStatisticsMixer&>(*block.attn);
  weights.mixer = tssa != nullptr ? EngineMixer::kTssa : EngineMixer::kNone;
  weights.in = packed_named(*projections.qkv, packing, name + "attn.qkv");
  weights.out =
      packed_onto_stream(*projections.to_out->named_children()["0"]->as<Linear>(), block.gamma1,
                         packing, name + "attn.to_out.0", weights.out_shift);
  if (tssa == nullptr) return weights;
  weights.temp = weight_values(tssa->temp.flatten());
  weights.additions = tssa->additions;
  return weights;
}

}  // namespace tost
