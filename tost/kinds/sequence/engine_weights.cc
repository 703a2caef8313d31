#include "tost/kinds/sequence/engine_weights.h"

#include "tost/base/error.h"

namespace tost {

SequenceWeights pack_sequence_weights(const SequenceClassifier& model, Packing products) {
  const torch::NoGradGuard no_grad;
  const Packing rest = products == Packing::kInt8 ? Packing::kBfloat16 : products;
  const auto children = model.named_children();
  SequenceWeights weights;
  const auto& embed = *children["embed"]->as<SequenceEmbedding>();
  weights.tokens = weight_values(embed.tokens->weight);
  if (embed.positions != nullptr) weights.positions = weight_values(embed.positions->weight);
  if (embed.cls_token.defined()) weights.class_token = weight_values(embed.cls_token.flatten());
  for (const auto& block : children["blocks"]->named_children()) {
    weights.blocks.push_back(token_block_weights(*block.value()->as<Block>(), products,
                                                 cat("blocks.", block.key(), ".")));
  }
  weights.norm = norm_weights(*children["norm"]->as<LayerNorm>());
  if (model.config().pairs) {
    const auto& head = *children["head"]->as<PairHead>();
    weights.pair_fc1 = packed_map(*head.fc1, rest);
    weights.pair_fc2 = packed_map(*head.fc2, rest);
  } else {
    weights.head = packed_map(*children["head"]->as<Linear>(), rest);
  }
  return weights;
}

}  // namespace tost
