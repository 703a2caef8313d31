// Selects the parameters to which weight decay applies.
#pragma once

#include <string>
#include <vector>

#include "tost/torch.h"

namespace tost {

struct DecayGroup {
  std::vector<std::string> names;     // checkpoint names, unique over both groups
  std::vector<torch::Tensor> params;  // the parameters themselves, in the same order
};

struct DecayGroups {
  DecayGroup decayed, exempt;
};

// The rule of the official vision training: 1-D parameters, biases, `cls_token` and registers are
// exempt. `temp` is 2-D and therefore decayed: the official code declares an exemption but never
// reads it. Parameters without requires_grad are in neither group.
DecayGroups vision_decay_groups(const torch::nn::Module& model);

// Applies the vision rule to classifiers of sequences, which have no official training. Tables of
// tokens and positions are decayed.
DecayGroups sequence_decay_groups(const torch::nn::Module& model);

// The rule of the official language training: 1-D parameters and names with `temp` or `denom` are
// exempt; embeddings are decayed, and a tied embedding only once. Names with `conv` or `decay`,
// which the official code does not have, are exempt, because decay would change a filter or a
// horizon.
DecayGroups language_decay_groups(const torch::nn::Module& model);

}  // namespace tost
