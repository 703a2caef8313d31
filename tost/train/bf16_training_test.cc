// Training in bfloat16 on working copies of float32 weights.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/temp_dir.h"
#include "tost/base/random.h"
#include "tost/nn/layers.h"
#include "tost/train/trainer_test_util.h"

namespace tost {
namespace bf16_training_test {

using namespace tost::testing;
using torch::Tensor;

struct Net : torch::nn::Module {
  Net() {
    first = register_module("first", std::make_shared<Linear>(4, 24, true));
    second = register_module("second", std::make_shared<Linear>(24, 1, true));
    init_linears(*this);
  }
  Tensor forward(const Tensor& x) const {
    return second->forward(torch::dropout(first->forward(x).tanh(), 0.1, is_training()));
  }
  std::shared_ptr<Linear> first, second;
};

// A regression whose batches are a pure function of their place.
class NetTask : public TrainTask {
 public:
  NetTask() {
    torch::manual_seed(3);
    net_ = std::make_shared<Net>();
  }

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
  int64_t samples_per_batch() const override { return kRows; }
  int64_t rows_per_batch() const override { return kRows; }
  int64_t batches_per_epoch() const override { return 10; }
  void share_batches(const BatchShare&, Group*) override {}
  void start_epoch(int64_t epoch, int64_t first) override { next_ = 10 * epoch + first; }
  void fetch() override {}
  MicroBatch next_batch() override { return {.loss = loss(next_++), .samples = kRows}; }
  double wait_seconds() const override { return 0; }
  std::optional<nlohmann::json> evaluate(const std::atomic<bool>*) override {
    const torch::NoGradGuard no_grad;
    return nlohmann::json{{"loss", loss(1000).item<double>()}};
  }
  BestMetric best_metric() const override { return {"loss", false}; }
  nlohmann::json model_description() const override { return nlohmann::json::object(); }
  std::map<std::string, std::string> model_metadata() const override { return {{"format", "pt"}}; }

 private:
  static constexpr int64_t kRows = 32;

  Tensor loss(int64_t place) const {
    Random random(7, uint64_t(place));
    const Tensor x = torch::empty({kRows, 4});
    for (int64_t i = 0; i < x.numel(); ++i) x.view(-1)[i] = random.normal();
    return (net_->forward(x).to(torch::kFloat) - x.sum(1, true).sin()).square().mean();
  }

  std::shared_ptr<Net> net_;
  int64_t next_ = 0;
};

LoopConfig config(Precision precision, int64_t accumulate) {
  LoopConfig c = toy_config();
  c.precision = precision;
  c.accumulate = accumulate;
  c.evaluate_ema = false;
  return c;
}

TrainResult run(const std::filesystem::path& folder, const LoopConfig& c, int64_t stop_after = 0) {
  struct Stopper : TrainListener {
    void on_step(const StepReport& report) override {
      if (report.step == after) stop = true;
    }
    int64_t after = 0;
    std::atomic<bool> stop{false};
  } stopper;
  stopper.after = stop_after;
  at::set_num_threads(1);
  NetTask task;
  Trainer trainer(c, task, folder, stopper, &stopper.stop);
  trainer.resume();
  return trainer.train();
}

TEST(Bf16Training, ResumedEqualsUninterruptedBitForBit) {
  for (const int64_t accumulate : {1, 2}) {
    const TempDir whole, parts;
    const LoopConfig c = config(Precision::kBf16, accumulate);
    run(whole.path(), c);
    EXPECT_TRUE(run(parts.path(), c, 7).interrupted);
    EXPECT_FALSE(run(parts.path(), c).interrupted);
    expect_same_checkpoint(whole.path(), parts.path());
  }
}

TEST(Bf16Training, SavesWhatFloat32TrainingSaves) {
  const TempDir narrow, wide;
  run(narrow.path(), config(Precision::kBf16, 1));
  run(wide.path(), config(Precision::kFp32, 1));
  const Checkpoint a = newest_checkpoint(narrow.path()), b = newest_checkpoint(wide.path());
  ASSERT_EQ(a.parts.size(), b.parts.size());
  for (size_t i = 0; i < a.parts.size(); ++i) {
    ASSERT_EQ(a.parts[i].tensors.size(), b.parts[i].tensors.size());
    for (const auto& [name, tensor] : b.parts[i].tensors) {
      ASSERT_TRUE(a.parts[i].tensors.contains(name)) << name;
      EXPECT_EQ(a.parts[i].tensors.at(name).scalar_type(), tensor.scalar_type()) << name;
    }
  }
}

TEST(Bf16Training, LearnsLikeFloat32) {
  std::map<Precision, double> losses;
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    LoopConfig c = config(precision, 1);
    c.epochs = 20;
    const TempDir folder;
    losses[precision] = run(folder.path(), c).last_eval.at("loss").get<double>();
  }
  EXPECT_LT(losses[Precision::kFp32], 0.3) << "it must have learned something";
  EXPECT_NEAR(losses[Precision::kBf16], losses[Precision::kFp32], 0.15 * losses[Precision::kFp32]);
}

}  // namespace bf16_training_test
}  // namespace tost
