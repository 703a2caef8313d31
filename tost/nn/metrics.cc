#include "tost/nn/metrics.h"

#include <torch/nn/functional/loss.h>

#include "tost/ops/device.h"

namespace tost {

using torch::Tensor;

Tensor classification_loss(const Tensor& logits, const Tensor& labels, const Tensor& targets) {
  const Tensor wide = logits.scalar_type() == torch::kDouble ? logits : logits.to(torch::kFloat);
  return torch::nn::functional::cross_entropy(
      wide, to_device(targets.defined() ? targets : labels, logits.device()));
}

Tensor count_correct(const Tensor& logits, const Tensor& labels, const Tensor& targets) {
  const Tensor expected = targets.defined() ? targets.argmax(1) : labels;
  return logits.argmax(1).eq(to_device(expected, logits.device())).sum();
}

void add_scores(ClassScores& scores, const Tensor& logits, const Tensor& labels) {
  const Tensor rows = logits.detach().to(torch::kCPU).to(torch::kFloat).contiguous();
  const Tensor at = labels.to(torch::kCPU).contiguous();
  scores.add(rows.const_data_ptr<float>(), at.const_data_ptr<int64_t>(), rows.size(0));
}

bool add_up(Group* group, ClassScores& scores, bool stopped) {
  if (!add_up(group, {&scores.loss_sum}, {&scores.count, &scores.first, &scores.among_five},
              stopped)) {
    return false;
  }
  add_up(group, scores.confusion);
  return true;
}

std::vector<RankedClass> rank_classes(const torch::Tensor& probabilities,
                                      const std::vector<std::string>& classes, int64_t top_k) {
  const Tensor wide = probabilities.to(torch::kDouble).contiguous();
  const auto* first = wide.const_data_ptr<double>();
  return rank_classes(std::vector<double>(first, first + wide.numel()), classes, top_k);
}

}  // namespace tost
