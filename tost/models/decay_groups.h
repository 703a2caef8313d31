// Which parameters weight decay applies to.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

namespace tost {

struct DecayGroup {
  std::vector<std::string> names;     // checkpoint names, unique over both groups
  std::vector<torch::Tensor> params;  // the parameters themselves, in the same order
};

struct DecayGroups {
  DecayGroup decayed, exempt;
};

// The rule of the official vision training: 1-D parameters, biases and `cls_token` are exempt.
// `temp` is 2-D and therefore decayed (its declared exemption is never read there). Parameters
// without requires_grad are in neither group.
DecayGroups vision_decay_groups(const torch::nn::Module& model);

}  // namespace tost
