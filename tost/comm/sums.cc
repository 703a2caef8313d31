#include "tost/comm/sums.h"

#include <torch/csrc/autograd/custom_function.h>

namespace tost {

using torch::Tensor;

bool add_up(Group* group, const std::vector<double*>& numbers, const std::vector<int64_t*>& counts,
            bool stopped) {
  if (group == nullptr) return !stopped;
  std::vector<double> sums{stopped ? 1.0 : 0.0};
  for (const double* number : numbers) sums.push_back(*number);
  for (const int64_t* count : counts) sums.push_back(double(*count));
  group->sum(torch::from_blob(sums.data(), {int64_t(sums.size())}, torch::kDouble));
  auto sum = sums.begin();
  const bool none = *sum++ == 0;
  for (double* number : numbers) *number = *sum++;
  for (int64_t* count : counts) *count = int64_t(*sum++);
  return none;
}

void add_up(Group* group, std::vector<int64_t>& counts) {
  if (group == nullptr || counts.empty()) return;
  group->sum(torch::from_blob(counts.data(), {int64_t(counts.size())}, torch::kLong));
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Group& group_of(AutogradContext* context) {
  return *reinterpret_cast<Group*>(context->saved_data["group"].toInt());
}

// A summand's gradient is the sum of the gradients of all processes, because all use the sum.
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
    const Tensor local = torch::empty_like(all.select(0, 0), torch::MemoryFormat::Contiguous);
    group_of(context).begin_scatter_sum(local.view({-1}), all.view({-1}))();
    return {local, Tensor()};
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
