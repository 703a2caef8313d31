#include "tost/bench/decode_bench.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/process_memory.h"
#include "tost/bench/memory_read.h"
#include "tost/bench/model_checks.h"
#include "tost/bench/timing.h"
#include "tost/infer/language_engine.h"

namespace tost {
namespace {

DecodeBenchRow measure(LanguageModel& model, const LanguageEngine& engine,
                       const DecodeBenchOptions& options, int64_t context) {
  DecodeBenchRow row;
  row.context = context;
  row.weight_bytes = engine.step_bytes();
  const int64_t vocab = model.config().vocab;
  LanguageState state;
  const auto prompt = torch::randint(0, vocab, {options.batch, context});
  {
    LanguageState first;  // lays out the weights for long texts
    model.extend(prompt.slice(1, 0, std::min<int64_t>(context, 64)), first);
  }
  const auto prefill = Clock::now();
  model.extend(prompt, state);
  row.prefill_tokens_per_s = double(options.batch * context) / (1e-3 * ms_since(prefill));
  std::vector<double> times;
  for (int64_t i = -2; i < options.tokens; ++i) {  // two to warm up
    const auto ids = torch::randint(0, vocab, {options.batch, 1});
    const auto start = Clock::now();
    model.extend(ids, state);
    if (i >= 0) times.push_back(ms_since(start));
  }
  row.step_ms = median(times);
  row.state_bytes = state_bytes(state);
  row.resident_bytes = resident_bytes();
  row.read_ms = memory_read_ms(row.weight_bytes);
  row.read_gb_per_s = double(row.weight_bytes) / row.read_ms / 1e6;
  return row;
}

}  // namespace

std::vector<DecodeBenchRow> run_decode_bench(
    const DecodeBenchOptions& options, const std::function<void(const DecodeBenchRow&)>& report) {
  if (options.batch < 1 || options.tokens < 1) {
    fail_usage("batch and tokens must be 1 or above, found ", options.batch, " and ",
               options.tokens, ".");
  }
  const torch::NoGradGuard no_grad;
  std::vector<DecodeBenchRow> rows;
  for (const auto& name : options.models) {
    for (const auto& precision : options.precisions) {
      torch::manual_seed(0);
      const auto model = make_language_model(language_preset(name));
      model->eval();
      read_by_engine(model, precision);
      check_steps(*model, name, precision);  // which changes LayerScale for a while
      const auto engine = read_by_engine(model, precision);
      for (const int64_t context : options.contexts) {
        if (context < 1) fail_usage("A context of ", context, " tokens cannot be read.");
        rows.push_back(measure(*model, *engine, options, context));
        rows.back().model = name;
        rows.back().precision = precision;
        report(rows.back());
      }
    }
  }
  return rows;
}

}  // namespace tost
