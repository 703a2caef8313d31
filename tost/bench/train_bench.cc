#include "tost/bench/train_bench.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tost/base/error.h"
#include "tost/bench/model_checks.h"
#include "tost/bench/plain_model.h"
#include "tost/bench/timing.h"
#include "tost/eval/precision.h"
#include "tost/models/decay_groups.h"
#include "tost/models/language_model.h"
#include "tost/ops/block_cache.h"
#include "tost/ops/caching_allocator.h"
#include "tost/train/adamw.h"

namespace tost {
namespace {

using torch::Tensor;

// Every matrix product of one training step, on operands of its shapes and type.
class Floor {
 public:
  Floor(const LanguageModel& model, int64_t rows, torch::Dtype type) : rows_(rows), type_(type) {
    for (const auto& module : model.modules(/*include_self=*/false)) {
      if (const auto* linear = module->as<Linear>()) add(linear->weight);
      if (const auto* table = module->as<Embedding>()) {
        if (table->weight.size(0) == model.config().vocab) add(table->weight);  // the tied head
      }
    }
  }

  void run() const {
    const torch::NoGradGuard no_grad;
    for (const Tensor& w : weights_) at::linear(rows_of(w.size(1)), w);
    for (const Tensor& w : weights_) {
      at::mm(rows_of(w.size(0)), w);
      at::mm(rows_of(w.size(0)).t(), rows_of(w.size(1)));
    }
  }

  double gflop() const {
    double sum = 0;
    for (const Tensor& w : weights_) sum += 6e-9 * double(rows_) * double(w.numel());
    return sum;
  }

 private:
  void add(const Tensor& weight) {
    weights_.push_back(weight.detach().to(type_));
    for (const int64_t width : weight.sizes()) {
      if (!inputs_.contains(width)) inputs_[width] = torch::randn({rows_, width}).to(type_);
    }
  }
  const Tensor& rows_of(int64_t width) const { return inputs_.at(width); }

  int64_t rows_;
  torch::Dtype type_;
  std::vector<Tensor> weights_;
  std::map<int64_t, Tensor> inputs_;
};

// A model with its optimiser, and the steps of it that were taken.
class Runner {
 public:
  Runner(const LanguageConfig& config, const TrainBenchOptions& options, std::string precision)
      : model_(make_language_model(config)),
        optimizer_(groups(*model_), {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8}),
        precision_(std::move(precision)) {
    ids_ = torch::randint(0, config.vocab, {options.batch, config.block}, torch::kLong);
    targets_ = torch::randint(0, config.vocab, {options.batch, config.block}, torch::kLong);
  }

  LanguageModel& model() { return *model_; }

  struct Times {
    std::vector<double> whole, forward, backward, update;
    int64_t bytes = 0;
    double first_loss = NAN;
  };

  void step(Times& times, const LossOf& loss_of) {
    optimizer_.zero_grad();
    BlockCache::instance().reset_peak();
    const int64_t before = BlockCache::instance().stats().in_use_bytes;
    const auto start = Clock::now();
    Tensor loss;
    {
      const PrecisionScope scope(precision_);
      loss = loss_of(ids_, targets_);
    }
    const double value = loss.item<double>();
    times.forward.push_back(ms_since(start));
    const auto middle = Clock::now();
    loss.backward();
    times.backward.push_back(ms_since(middle));
    const auto late = Clock::now();
    optimizer_.step(6e-4, clip_scale(gradient_norm(optimizer_.parameters()), 1.0));
    times.update.push_back(ms_since(late));
    times.whole.push_back(ms_since(start));
    times.bytes = BlockCache::instance().stats().peak_bytes - before;
    if (std::isnan(times.first_loss)) times.first_loss = value;
  }

 private:
  static std::vector<ParamGroup> groups(const LanguageModel& model) {
    const DecayGroups found = language_decay_groups(model);
    return {{found.decayed.names, found.decayed.params, 0.1},
            {found.exempt.names, found.exempt.params, 0}};
  }

  std::shared_ptr<LanguageModel> model_;
  AdamW optimizer_;
  std::string precision_;
  Tensor ids_, targets_;
};

// The first step of a kind only warms up.
StepCost cost(Runner::Times times) {
  for (auto* list : {&times.whole, &times.forward, &times.backward, &times.update}) {
    list->erase(list->begin());
  }
  return {.ms = median(times.whole),
          .forward_ms = median(times.forward),
          .backward_ms = median(times.backward),
          .update_ms = median(times.update),
          .bytes = caching_allocator_enabled() ? times.bytes : 0,
          .loss = times.first_loss};
}

StepCost measure_twin(const TrainBenchOptions& options, const std::string& precision) {
  LanguageConfig config = options.config;
  config.mixer = "softmax";
  config.options = {};
  Runner runner(config, options, precision);
  Runner::Times times;
  for (int64_t i = 0; i <= options.repeat; ++i) {
    runner.step(times, [&](const Tensor& ids, const Tensor& targets) {
      return runner.model().loss(ids, targets);
    });
  }
  return cost(std::move(times));
}

TrainBenchRow measure(const TrainBenchOptions& options, const std::string& precision) {
  TrainBenchRow row;
  row.precision = precision;
  row.tokens = options.batch * options.config.block;
  {
    Runner runner(options.config, options, precision);
    for (const Tensor& p : runner.model().parameters()) row.parameters += p.numel();
    const Floor floor(runner.model(), row.tokens,
                      precision == "bf16" ? torch::kBFloat16 : torch::kFloat);
    row.floor_gflop = floor.gflop();
    PlainModel plain(runner.model());
    const LossOf fused_loss = [&](const Tensor& ids, const Tensor& targets) {
      return runner.model().loss(ids, targets);
    };
    const LossOf plain_loss = [&](const Tensor& ids, const Tensor& targets) {
      return plain.loss(ids, targets);
    };
    if (options.plain) check_same_loss(runner.model(), plain_loss, precision);
    Runner::Times step, plain_step;
    std::vector<double> floors;
    for (int64_t i = 0; i <= options.repeat; ++i) {
      runner.step(step, fused_loss);
      const auto start = Clock::now();
      floor.run();
      if (i > 0) floors.push_back(ms_since(start));
      if (options.plain) runner.step(plain_step, plain_loss);
    }
    row.floor_ms = median(floors);
    row.step = cost(std::move(step));
    if (options.plain) row.plain = cost(std::move(plain_step));
  }
  if (options.twin) row.twin = measure_twin(options, precision);
  return row;
}

}  // namespace

std::vector<std::string> parse_precisions(const std::string& text) {
  std::vector<std::string> found;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    found.push_back(text.substr(begin, end - begin));
    if (found.back() != "fp32" && found.back() != "bf16") {
      fail_usage("--precision is '", text, "'; write fp32, bf16 or fp32,bf16.");
    }
    begin = end + 1;
  }
  return found;
}

std::vector<TrainBenchRow> run_train_bench(
    const TrainBenchOptions& options, const std::function<void(const TrainBenchRow&)>& report) {
  if (options.repeat < 1) fail_usage("--repeat is ", options.repeat, "; it must be at least 1.");
  if (options.batch < 1) fail_usage("--batch is ", options.batch, "; it must be at least 1.");
  validate(options.config);
  if (options.plain) check_plain_form(options.config);
  torch::manual_seed(0);
  std::vector<TrainBenchRow> rows;
  for (const std::string& precision : options.precisions) {
    rows.push_back(measure(options, precision));
    report(rows.back());
  }
  return rows;
}

}  // namespace tost
