// A set of parameters that share a weight decay, and the naming that ties optimiser state to
// parameters.
#pragma once

#include <string>
#include <vector>

#include "tost/torch.h"

namespace tost {

struct ParamGroup {
  std::vector<std::string>
      names;  // one a parameter, unique over all groups: the state's checkpoint key
  std::vector<torch::Tensor> params;
  double weight_decay = 0;
};

}  // namespace tost
