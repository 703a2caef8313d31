#include "tost/kinds/language/decode_bench.h"

#include <algorithm>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/process_memory.h"
#include "tost/bench/product_floor.h"
#include "tost/bench/timing.h"
#include "tost/kinds/language/engine.h"
#include "tost/kinds/language/model_checks.h"
#include "tost/kinds/language/place.h"
#include "tost/ops/device.h"
#include "tost/ops/device_memory.h"
#include "tost/ops/graphed_call.h"

namespace tost {
namespace {

// A model where it is measured.
struct Placed {
  std::shared_ptr<LanguageModel> model;
  torch::Device device;
  int64_t step_bytes = 0;
  std::shared_ptr<LanguageGraphs> graphs = nullptr;
};

// That a step reads on a GPU: all but the rows of the tables it looks up.
int64_t bytes_of_step(const LanguageModel& model, Precision precision) {
  int64_t numbers = 0;
  for (const auto& item : model.named_parameters()) {
    const bool looked_up = item.key().find(".wpe.") != std::string::npos ||
                           item.key().find("denom_bias") != std::string::npos;
    if (!looked_up) numbers += item.value().numel();
  }
  return numbers * facts_of(precision).bits / 8;
}

Placed place(const std::shared_ptr<LanguageModel>& model, const DecodeBenchOptions& options,
             Precision precision) {
  const torch::Device device = options.device;
  if (device.is_cpu()) return {model, device, read_by_engine(model, precision)->step_bytes()};
  auto graphs = place_language(model, precision, device, options.graphs);
  return {model, device, bytes_of_step(*model, precision), std::move(graphs)};
}

DecodeBenchRow measure(const Placed& placed, const DecodeBenchOptions& options, int64_t context) {
  LanguageModel& model = *placed.model;
  const torch::Device device = placed.device;
  DecodeBenchRow row;
  row.context = context;
  row.weight_bytes = placed.step_bytes;
  restart_device_peak(device);
  const int64_t vocab = model.config().vocab;
  LanguageState state;
  const auto prompt = torch::randint(0, vocab, {options.batch, context});
  {
    LanguageState first;  // lays out the weights for long texts
    model.extend(prompt.slice(1, 0, std::min<int64_t>(context, 64)), first);
  }
  synchronize(device);
  const auto prefill = Clock::now();
  model.extend(prompt, state);
  synchronize(device);
  row.prefill_tokens_per_s = double(options.batch * context) / (1e-3 * ms_since(prefill));
  const auto replays = [&] { return placed.graphs != nullptr ? placed.graphs->replays() : 0; };
  const int64_t replays_before = replays();
  torch::Tensor ids;
  const Contestant step{[&] { model.extend(ids, state); },
                        [&] {
                          ids = torch::randint(0, vocab, {options.batch, 1});
                        }};
  const auto times =
      time_rounds(1 + GraphedCall::kWarmUps, options.tokens, {step}, ms_clock(device));
  row.graphs = replays() - replays_before >= options.tokens;
  row.step_ms = median(times[0]);
  row.state_bytes = state_bytes(state);
  row.resident_bytes = device.is_cpu() ? resident_bytes() : device_peak_bytes(device);
  row.read_ms = memory_read_ms(row.weight_bytes, device);
  row.read_gb_per_s = double(row.weight_bytes) / row.read_ms / 1e6;
  return row;
}

// Those asked for, or all the device has.
Precisions precisions_of(const DecodeBenchOptions& options) {
  if (!options.precisions.empty()) return options.precisions;
  return language_precisions(options.device);
}

// Lengths and precisions that a model does not take show when it is measured.
void check(const DecodeBenchOptions& options) {
  const auto at_least_one = [](const char* flag, int64_t value) {
    if (value < 1) fail_usage(flag, " is ", value, "; it must be 1 or above.");
  };
  at_least_one("--batch", options.batch);
  at_least_one("--tokens", options.tokens);
  for (const int64_t context : options.contexts) at_least_one("--contexts", context);
  graphs_wanted(options.graphs, options.device);
  for (const auto& name : options.models) language_preset(name);
}

}  // namespace

std::vector<DecodeBenchRow> run_decode_bench(
    const DecodeBenchOptions& options, const std::function<void(const DecodeBenchRow&)>& report) {
  check(options);
  const torch::NoGradGuard no_grad;
  std::vector<DecodeBenchRow> rows;
  for (const auto& name : options.models) {
    for (const Precision precision : precisions_of(options)) {
      torch::manual_seed(0);
      const auto model = make_language_model(language_preset(name));
      model->eval();
      place(model, options, precision);
      const PrecisionScope scope(scope_precision(precision, options.device), options.device);
      check_steps(*model, name, precision);  // which changes LayerScale for a while
      const Placed placed = place(model, options, precision);
      for (const int64_t context : options.contexts) {
        rows.push_back(measure(placed, options, context));
        rows.back().model = name;
        rows.back().precision = precision;
        report(rows.back());
      }
    }
  }
  return rows;
}

}  // namespace tost
