// A small regression with everything that a resume can get wrong: batch norm buffers, dropout from
// torch's generator, batches that depend on epoch and index.
#pragma once

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <utility>
#include <vector>

#include "tost/base/random.h"
#include "tost/torch.h"
#include "tost/train/train_task.h"

namespace tost::testing {

class ToyTask : public TrainTask {
 public:
  explicit ToyTask(uint64_t seed, int64_t batch = 8, int64_t batches = 6, bool noisy = true)
      : seed_(seed), batch_(batch), batches_(batches) {
    torch::manual_seed(seed);
    net_ = torch::nn::Sequential();
    net_->push_back(torch::nn::Linear(4, 16));
    if (noisy) net_->push_back(torch::nn::BatchNorm1d(16));
    if (noisy) net_->push_back(torch::nn::Dropout(0.2));
    net_->push_back(torch::nn::Tanh());
    net_->push_back(torch::nn::Linear(16, 1));
  }

  // Called with the number of batches given out so far, before each.
  std::function<void(int64_t)> before_batch;
  std::function<torch::Tensor(int64_t, torch::Tensor)> change_loss;
  std::function<void()> before_eval, before_eval_read;
  std::function<double(double)> change_eval;
  std::vector<int64_t> taken;  // places of the batches given out, in the stream of all epochs

  torch::nn::Module& model() override { return *net_; }
  std::vector<ParamGroup> param_groups() override {
    ParamGroup group{.names = {}, .params = {}, .weight_decay = 0.01};
    for (const auto& item : net_->named_parameters()) {
      group.names.push_back(item.key());
      group.params.push_back(item.value());
    }
    return {group};
  }
  std::string unit() const override { return "rows"; }
  int64_t samples_per_batch() const override { return batch_; }
  int64_t rows_per_batch() const override { return batch_; }
  int64_t batches_per_epoch() const override { return batches_; }
  void share_batches(const BatchShare& share, Group*) override { share_ = share; }
  void start_epoch(int64_t epoch, int64_t first_batch) override {
    epoch_ = epoch;
    next_ = share_.next(first_batch);
    fetched_ = torch::Tensor();
  }
  void fetch() override {
    if (before_batch) before_batch(batch_number_);
    taken.push_back(epoch_ * batches_ + next_);
    fetched_ = rows(taken.back());
    next_ = share_.next(next_ + 1);
  }
  MicroBatch next_batch() override {
    if (!fetched_.defined()) fetch();
    const torch::Tensor x = std::exchange(fetched_, {});
    torch::Tensor loss = (net_->forward(x) - target(x)).square().mean();
    if (change_loss) loss = change_loss(batch_number_, loss);
    ++batch_number_;
    return {.loss = loss, .samples = batch_, .correct = int64_t(loss.item<double>() < 1)};
  }
  double wait_seconds() const override { return 0; }
  std::optional<nlohmann::json> evaluate(const std::atomic<bool>* stop) override {
    if (before_eval) before_eval();
    if (stop && stop->load()) return std::nullopt;
    const torch::NoGradGuard no_grad;
    const torch::Tensor x = read_watched(read_guard_, [this] {
      if (before_eval_read) before_eval_read();
      return rows(1000);
    });
    const double loss = (net_->forward(x) - target(x)).square().mean().item<double>();
    return nlohmann::json{{"loss", change_eval ? change_eval(loss) : loss}};
  }
  BestMetric best_metric() const override { return {"loss", false}; }
  nlohmann::json model_description() const override { return nlohmann::json::object(); }
  std::map<std::string, std::string> model_metadata() const override { return {{"format", "pt"}}; }

 private:
  // One stream of rows, which batches of any size cut: a pure function of its place, and without
  // torch's generator.
  torch::Tensor rows(int64_t batch) const {
    const torch::Tensor x = torch::empty({batch_, 4});
    for (int64_t i = 0; i < batch_; ++i) {
      Random random(seed_, uint64_t(batch * batch_ + i));
      for (int64_t j = 0; j < 4; ++j) x[i][j] = random.normal();
    }
    return x;
  }
  static torch::Tensor target(const torch::Tensor& x) { return x.sum(1, true).sin(); }

  uint64_t seed_;
  int64_t batch_, batches_;
  torch::nn::Sequential net_{nullptr};
  BatchShare share_;
  int64_t epoch_ = 0, next_ = 0, batch_number_ = 0;
  torch::Tensor fetched_;
};

}  // namespace tost::testing
