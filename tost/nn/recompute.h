// Activations computed again in backward instead of being kept.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tost/torch.h"

namespace tost {

enum class Recompute {
  kNone,
  kMlp,    // the hidden values of each MLP
  kBlock,  // everything within a block: only its input is kept
};

std::vector<std::string> recompute_names();  // none, mlp, block
// Throws a usage Error for another name.
Recompute recompute_from_name(const std::string& name);

// Sets every block below `module`.
void set_recompute(torch::nn::Module& module, Recompute recompute);

// run(x), of which only x is kept; backward runs it again, from torch's generator and autocast as
// they were: the same values and gradients bit for bit, but for Linears on 1 to 4 rows, whose
// products without gradients round otherwise (few_rows.h). Gradients of other tensors that `run`
// reads go into their .grad at once: for backward(), not for torch::autograd::grad(), nor
// differentiable (a usage Error). Without gradients of x it just runs. `run` lives as long as the
// graph.
torch::Tensor recomputed(const std::function<torch::Tensor(const torch::Tensor&)>& run,
                         const torch::Tensor& x);

}  // namespace tost
