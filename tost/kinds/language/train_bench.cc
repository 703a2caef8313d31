#include "tost/kinds/language/train_bench.h"

#include "tost/kinds/language/model_checks.h"
#include "tost/kinds/language/plain_model.h"

namespace tost {
namespace {

using torch::Tensor;

class LanguageBench : public TrainBenchModel {
 public:
  LanguageBench(const LanguageConfig& config, int64_t batch)
      : model_(make_language_model(config)), plain_(*model_) {
    ids_ = torch::randint(0, config.vocab, {batch, config.block}, torch::kLong);
    targets_ = torch::randint(0, config.vocab, {batch, config.block}, torch::kLong);
  }

  torch::nn::Module& module() override { return *model_; }
  DecayGroups decay_groups() const override { return language_decay_groups(*model_); }
  int64_t samples() const override { return ids_.numel(); }
  void move_to(torch::Device device) override {
    model_->to(device);
    ids_ = ids_.to(device);
    targets_ = targets_.to(device);
  }

  std::vector<StepProduct> products() const override {
    std::vector<StepProduct> found;
    const auto add = [&](const Tensor& weight) {
      found.push_back({.rows = samples(), .in = weight.size(1), .out = weight.size(0)});
    };
    for (const auto& module : model_->modules(/*include_self=*/false)) {
      if (const auto* linear = module->as<Linear>()) add(linear->weight);
      const auto* table = module->as<Embedding>();
      if (table != nullptr && table->in_products) add(table->weight);
    }
    return found;
  }

  Tensor loss() override { return model_->loss(ids_, targets_); }
  Tensor plain_loss() override { return plain_.loss(ids_, targets_); }
  void check(const std::string& precision) override {
    const LossOf plain = [&](const Tensor& ids, const Tensor& targets) {
      return plain_.loss(ids, targets);
    };
    check_same_loss(*model_, plain, precision);
  }

 private:
  std::shared_ptr<LanguageModel> model_;
  PlainModel plain_;
  Tensor ids_, targets_;
};

}  // namespace

std::unique_ptr<TrainBenchModel> make_bench_model(const LanguageConfig& config, int64_t batch) {
  return std::make_unique<LanguageBench>(config, batch);
}

}  // namespace tost
