#include "tost/comm/split_tokens.h"

#include <torch/csrc/autograd/custom_function.h>

namespace tost {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Group& group_of(AutogradContext* context) {
  return *reinterpret_cast<Group*>(context->saved_data["group"].toInt());
}

// Every process uses the sum, so that its gradient is the sum of theirs.
class SumOfAll : public torch::autograd::Function<SumOfAll> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, int64_t group) {
    context->saved_data["group"] = group;
    const Tensor sum = x.clone(torch::MemoryFormat::Contiguous);
    group_of(context).sum(sum);
    return sum;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const Tensor sum = grads[0].clone(torch::MemoryFormat::Contiguous);
    group_of(context).sum(sum);
    return {sum, Tensor()};
  }
};

class GatherOfAll : public torch::autograd::Function<GatherOfAll> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, int64_t group) {
    context->saved_data["group"] = group;
    return group_of(context).gather(x);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const Tensor all = grads[0].contiguous();
    const Tensor mine = torch::empty_like(all.select(0, 0), torch::MemoryFormat::Contiguous);
    group_of(context).begin_scatter_sum(mine.view({-1}), all.view({-1}))();
    return {mine, Tensor()};
  }
};

}  // namespace

TokenSums token_sums(Group& group) {
  const auto handle = reinterpret_cast<int64_t>(&group);
  return {.place = group.rank(),
          .total = [handle](const Tensor& x) { return SumOfAll::apply(x, handle); },
          .gather = [handle](const Tensor& x) { return GatherOfAll::apply(x, handle); }};
}

}  // namespace tost
