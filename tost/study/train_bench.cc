#include "tost/study/train_bench.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "tost/base/error.h"
#include "tost/bench/timing.h"
#include "tost/bench/train_bench_model.h"
#include "tost/kinds/language/bench.h"
#include "tost/kinds/language/plain_model.h"
#include "tost/kinds/vision/bench.h"
#include "tost/nn/precision.h"
#include "tost/nn/recompute.h"
#include "tost/nn/state_dict.h"
#include "tost/nn/working_copy.h"
#include "tost/ops/block_cache.h"
#include "tost/ops/caching_allocator.h"
#include "tost/ops/device.h"
#include "tost/ops/device_memory.h"
#include "tost/ops/graphed_call.h"
#include "tost/torch.h"
#include "tost/train/adamw.h"

namespace tost {
namespace {

using torch::Tensor;

// AdamW as torch's eager optimiser has it on the CPU: a handful of operations a tensor.

class PlainAdamW {
 public:
  PlainAdamW(std::vector<ParamGroup> groups, AdamWOptions options)
      : groups_(std::move(groups)), options_(options) {
    for (const ParamGroup& group : groups_) {
      auto& moments = moments_.emplace_back();
      for (const Tensor& p : group.params) {
        moments.push_back({torch::zeros_like(p).detach(), torch::zeros_like(p).detach()});
      }
    }
  }

  // Gradients are first scaled to a norm of at most max_norm, in place.
  void step(double lr, double max_norm) {
    const torch::NoGradGuard no_grad;
    std::vector<Tensor> all, gradients;
    for (const ParamGroup& group : groups_) {
      for (const Tensor& p : group.params) {
        if (!p.grad().defined()) continue;
        if (p.grad().is_sparse()) Tensor(p).mutable_grad() = p.grad().to_dense();
        all.push_back(p);
        gradients.push_back(p.grad());
      }
    }
    at::_foreach_mul_(gradients, clip_scale(gradient_norm(all), max_norm));
    ++steps_;
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (size_t i = 0; i < groups_[g].params.size(); ++i) {
        const Tensor& p = groups_[g].params[i];
        if (p.grad().defined()) step_one(p, moments_[g][i], lr, groups_[g].weight_decay);
      }
    }
  }

  void zero_grad() {
    for (ParamGroup& group : groups_) {
      for (Tensor& p : group.params) p.mutable_grad() = Tensor();
    }
  }

 private:
  struct Moments {
    torch::Tensor exp_avg, exp_avg_sq;
  };
  void step_one(const Tensor& p, const Moments& moments, double lr, double weight_decay) {
    const Tensor gradient = p.grad();
    Tensor value = p, m = moments.exp_avg, v = moments.exp_avg_sq;
    const double rest1 = 1 - std::pow(options_.beta1, double(steps_));
    const double rest2 = 1 - std::pow(options_.beta2, double(steps_));
    value.mul_(1 - lr * weight_decay);
    m.lerp_(gradient, 1 - options_.beta1);
    v.mul_(options_.beta2).addcmul_(gradient, gradient, 1 - options_.beta2);
    value.addcdiv_(m, (v.sqrt() / std::sqrt(rest2)).add_(options_.eps), -lr / rest1);
  }

  std::vector<ParamGroup> groups_;
  std::vector<std::vector<Moments>> moments_;
  AdamWOptions options_;
  int64_t steps_ = 0;
};

// A model with its optimiser, and the steps of it that were taken.
class StepRunner {
 public:
  StepRunner(const TrainBenchOptions& options, Precision precision, bool plain)
      : model_(make_model(options)),
        precision_(precision),
        plain_(plain),
        device_(options.device),
        forward_backward_(device_, !plain && graphs_wanted(options.graphs, device_),
                          [this](const Tensors&) { return run_batch(); }),
        update_(device_, forward_backward_.by_graphs(), [this](const Tensors&) {
          optimizer_->apply(/*scaled=*/true);
          return Tensors{};
        }) {
    if (options.graphs == "on") {
      forward_backward_.demand_graphs();
      update_.demand_graphs();
    }
    if (!device_.is_cpu()) model_->move_to(device_);
    if (plain) {
      model_->check(precision);
      plain_optimizer_ = std::make_unique<PlainAdamW>(groups(*model_), kAdamW);
    } else {
      AdamW::Copies copies;
      if (precision == Precision::kBf16 && device_.is_cpu())
        copies = keep_working_copies(model_->module(), true);
      set_recompute(model_->module(), recompute_from_name(options.recompute));
      optimizer_ = std::make_unique<AdamW>(groups(*model_), kAdamW, copies);
      copy_bytes_ = bytes_of(copies);
    }
  }

  TrainBenchModel& model() { return *model_; }
  int64_t parameters() const { return parameter_count(model_->module()); }
  bool by_graphs() const { return forward_backward_.replays() > 0 && update_.replays() > 0; }
  // Weights, both moments and working copies.
  int64_t state_bytes() const { return 12 * parameters() + copy_bytes_; }

  struct Times {
    std::vector<double> whole, forward, backward, both, update;
    int64_t bytes = 0;
    double first_loss = NAN;
  };

  void step(Times& times) {
    if (forward_backward_.by_graphs()) return step_by_graphs(times);
    plain_ ? plain_optimizer_->zero_grad() : optimizer_->zero_grad();
    restart_peak();
    const int64_t before = peak_bytes();
    const auto start = Clock::now();
    Tensor loss;
    {
      const PrecisionScope scope(precision_, device_);
      loss = plain_ ? model_->plain_loss() : model_->loss();
    }
    const double value = loss.item<double>();
    times.forward.push_back(ms_since(start));
    const auto middle = Clock::now();
    loss.backward();
    synchronize(device_);
    times.backward.push_back(ms_since(middle));
    times.both.push_back(ms_since(start));
    const auto late = Clock::now();
    update();
    synchronize(device_);
    times.update.push_back(ms_since(late));
    times.whole.push_back(ms_since(start));
    times.bytes = peak_bytes() - before;
    if (std::isnan(times.first_loss)) times.first_loss = value;
  }

 private:
  static constexpr AdamWOptions kAdamW{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};

  // Loss and norm [2].
  Tensors run_batch() {
    Tensor loss;
    {
      const PrecisionScope scope(precision_, device_);
      loss = model_->loss();
    }
    loss.backward();
    return {torch::stack(
        {loss.detach().to(torch::kDouble), optimizer_->gradient_norm_here().to(torch::kDouble)})};
  }

  // As the trainer does them (train/step_graphs.h).
  void step_by_graphs(Times& times) {
    steps_++ == 0 ? optimizer_->zero_grad() : optimizer_->clear_gradients();
    synchronize(device_);
    const auto start = Clock::now();
    const Tensor numbers = forward_backward_({})[0].cpu();
    times.forward.push_back(0);
    times.backward.push_back(0);
    times.both.push_back(ms_since(start));
    const auto late = Clock::now();
    optimizer_->prepare(6e-4, clip_scale(numbers[1].item<double>(), 1.0));
    update_({});
    synchronize(device_);
    times.update.push_back(ms_since(late));
    times.whole.push_back(ms_since(start));
    if (std::isnan(times.first_loss)) times.first_loss = numbers[0].item<double>();
  }

  // Bytes in use at most since restart_peak(), and so right after it those in use.
  int64_t peak_bytes() const {
    if (!device_.is_cpu()) return device_peak_bytes(device_);
    return caching_allocator_enabled() ? BlockCache::instance().stats().peak_bytes : 0;
  }
  void restart_peak() const {
    if (!device_.is_cpu()) return restart_device_peak(device_);
    BlockCache::instance().reset_peak();
  }

  void update() {
    if (plain_) return plain_optimizer_->step(6e-4, 1.0);
    optimizer_->step(6e-4, clip_scale(optimizer_->gradient_norm(), 1.0));
  }
  static int64_t bytes_of(const AdamW::Copies& copies) {
    int64_t bytes = 0;
    for (const auto& copy : copies) bytes += int64_t(copy->target().nbytes());
    return bytes;
  }
  static std::unique_ptr<TrainBenchModel> make_model(const TrainBenchOptions& options) {
    if (options.vision) return make_bench_model(*options.vision, options.batch, options.image_size);
    return make_bench_model(options.config, options.batch);
  }
  static std::vector<ParamGroup> groups(const TrainBenchModel& model) {
    const DecayGroups found = model.decay_groups();
    return {{found.decayed.names, found.decayed.params, 0.1},
            {found.exempt.names, found.exempt.params, 0}};
  }

  std::unique_ptr<TrainBenchModel> model_;
  std::unique_ptr<AdamW> optimizer_;
  std::unique_ptr<PlainAdamW> plain_optimizer_;
  Precision precision_;
  bool plain_;
  const torch::Device device_;
  GraphedCall forward_backward_, update_;
  int64_t steps_ = 0;
  int64_t copy_bytes_ = 0;
};

// The first steps of a kind only warm up.
int64_t warm_ups(const TrainBenchOptions& options) {
  return options.device.is_cpu() ? 1 : 1 + GraphedCall::kWarmUps;
}

StepCost cost(const TrainBenchOptions& options, const StepRunner& runner, StepRunner::Times times) {
  for (auto* list : {&times.whole, &times.forward, &times.backward, &times.both, &times.update}) {
    list->erase(list->begin(), list->begin() + warm_ups(options));
  }
  return {.ms = median(times.whole),
          .forward_ms = median(times.forward),
          .backward_ms = median(times.backward),
          .forward_backward_ms = median(times.both),
          .update_ms = median(times.update),
          .bytes = times.bytes,
          .state_bytes = runner.state_bytes(),
          .loss = times.first_loss,
          .graphs = runner.by_graphs()};
}

StepCost measure_twin(TrainBenchOptions options, Precision precision) {
  if (options.vision) {
    options.vision->mixer = "softmax";
  } else {
    options.config.mixer = "softmax";
    options.config.options = {};
  }
  StepRunner runner(options, precision, /*plain=*/false);
  StepRunner::Times times;
  for (int64_t i = -warm_ups(options); i < options.repeat; ++i) runner.step(times);
  return cost(options, runner, std::move(times));
}

TrainBenchRow measure(const TrainBenchOptions& options, Precision precision) {
  const torch::Device device = options.device;
  TrainBenchRow row;
  row.precision = precision;
  {
    StepRunner runner(options, precision, /*plain=*/false);
    row.parameters = runner.parameters();
    row.samples = runner.model().samples();
    std::unique_ptr<StepRunner> plain;
    if (options.plain) plain = std::make_unique<StepRunner>(options, precision, /*plain=*/true);
    const StepFloor floor(runner.model().products(), *facts_of(precision).modules, device);
    row.floor_gflop = floor.gflop();
    StepRunner::Times step, plain_step;
    std::vector<Contestant> all{{[&] { runner.step(step); }}, {[&] { floor.run(); }}};
    if (plain != nullptr) all.push_back({[&] { plain->step(plain_step); }});
    row.floor_ms = median(time_rounds(warm_ups(options), options.repeat, all, ms_clock(device))[1]);
    row.step = cost(options, runner, std::move(step));
    if (plain != nullptr) row.plain = cost(options, *plain, std::move(plain_step));
  }
  if (options.twin) row.twin = measure_twin(options, precision);
  return row;
}

void check_images(const VisionConfig& config, int64_t side) {
  validate(config);
  if (side >= config.patch && side % config.patch == 0 && side <= 4096) return;
  fail_usage("--image-size is ", side, "; it must be a multiple of the model's patch, ",
             config.patch, ", up to 4096.");
}

}  // namespace

Precisions parse_precisions(const std::string& text) {
  const auto known = classifier_precisions(/*engine=*/false);
  Precisions found;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const auto named = precision_named(text.substr(begin, end - begin), known);
    if (!named) fail_usage("--precision is '", text, "'; write fp32, bf16 or fp32,bf16.");
    found.push_back(*named);
    begin = end + 1;
  }
  return found;
}

void check_train_bench(const TrainBenchOptions& options) {
  if (options.repeat < 1) fail_usage("--repeat is ", options.repeat, "; it must be at least 1.");
  if (options.batch < 1) fail_usage("--batch is ", options.batch, "; it must be at least 1.");
  recompute_from_name(options.recompute);
  if (graphs_wanted(options.graphs, options.device) && options.recompute == "block") {
    fail_usage("Recompute block cannot be captured; measure it with --graphs off.");
  }
  if (options.vision) {
    check_images(*options.vision, options.image_size);
    if (options.plain) check_plain_vision(*options.vision);
  } else {
    validate(options.config);
    if (options.plain) check_plain_form(options.config);
  }
}

std::vector<TrainBenchRow> run_train_bench(
    const TrainBenchOptions& options, const std::function<void(const TrainBenchRow&)>& report) {
  check_train_bench(options);
  torch::manual_seed(0);
  std::vector<TrainBenchRow> rows;
  for (Precision precision : options.precisions) {
    rows.push_back(measure(options, precision));
    report(rows.back());
  }
  return rows;
}

}  // namespace tost
