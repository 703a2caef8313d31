#include "tost/nn/metrics.h"

#include <torch/nn/functional/loss.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tost/base/error.h"
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

ClassificationMeter::ClassificationMeter(int64_t classes)
    : confusion_(torch::zeros({classes, classes}, torch::kLong)) {}

bool ClassificationMeter::add_up(Group* group, bool stopped) {
  if (!tost::add_up(group, {&loss_}, {&images_, &top1_, &top5_}, stopped)) return false;
  if (group != nullptr) group->sum(confusion_);
  return true;
}

void ClassificationMeter::add(const Tensor& logits, const Tensor& labels) {
  const torch::NoGradGuard no_grad;
  const int64_t n = logits.size(0), classes = logits.size(1);
  const Tensor wide = logits.to(torch::kCPU).to(torch::kDouble);
  images_ += n;
  loss_ += torch::nn::functional::cross_entropy(wide, labels).item<double>() * double(n);
  const Tensor ranked = std::get<1>(wide.topk(std::min<int64_t>(5, classes), 1));
  const Tensor hits = ranked.eq(labels.unsqueeze(1));
  top1_ += hits.select(1, 0).sum().item<int64_t>();
  top5_ += hits.any(1).sum().item<int64_t>();
  const Tensor cells = labels * classes + ranked.select(1, 0);
  confusion_ += cells.bincount({}, classes * classes).view({classes, classes});
}

double ClassificationMeter::loss() const {
  return images_ == 0 ? 0 : loss_ / double(images_);
}
double ClassificationMeter::top1() const {
  return images_ == 0 ? 0 : double(top1_) / double(images_);
}
double ClassificationMeter::top5() const {
  return images_ == 0 ? 0 : double(top5_) / double(images_);
}

std::vector<RankedClass> rank_classes(const torch::Tensor& probabilities,
                                      const std::vector<std::string>& classes, int64_t top_k) {
  const Tensor wide = probabilities.to(torch::kDouble).contiguous();
  const auto* first = wide.const_data_ptr<double>();
  return rank_classes(std::vector<double>(first, first + wide.numel()), classes, top_k);
}

nlohmann::json class_rows(const torch::Tensor& confusion, const std::vector<std::string>& classes,
                          const char* items) {
  nlohmann::json rows = nlohmann::json::array();
  for (size_t k = 0; k < classes.size(); ++k) {
    const auto row = confusion[int64_t(k)];
    const int64_t count = row.sum().item<int64_t>(), right = row[int64_t(k)].item<int64_t>();
    rows.push_back(
        {{"class", classes[k]},
         {items, count},
         {"top1", count > 0 ? nlohmann::json(double(right) / double(count)) : nlohmann::json()}});
  }
  return rows;
}

}  // namespace tost
