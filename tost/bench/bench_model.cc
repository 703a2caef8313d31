#include "tost/bench/bench_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tost/base/error.h"
#include "tost/bench/engine_bench.h"

namespace tost {
namespace {

// The generator of a task's inputs.
Random random_of(const BenchTask& task) {
  return Random(uint64_t(task.batch) * 1'000'003 + uint64_t(task.size));
}

Array columns_of(const Array& ids, int64_t first, int64_t count) {
  Array some = Array::empty({ids.size(0), count}, TorchDtype::kInt64);
  for (int64_t b = 0; b < ids.size(0); ++b) {
    std::copy_n(ids.data<int64_t>() + b * ids.size(1) + first, count,
                some.mutable_data<int64_t>() + b * count);
  }
  return some;
}

}  // namespace

void BenchModel::save(const std::string&) const {
  fail_usage("Weights of ", facts.kind,
             " models cannot be written without the data they belong to.");
}

double relative_error(const Array& found, const Array& wanted) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (found.shape() != wanted.shape()) return kNone;
  double largest = 0, off = 0;
  for (int64_t i = 0; i < wanted.numel(); ++i) {
    const double a = double(found.data()[i]), b = double(wanted.data()[i]);
    if (!std::isfinite(a - b)) return kNone;
    largest = std::max(largest, std::abs(b)), off = std::max(off, std::abs(a - b));
  }
  return largest > 0 ? off / largest : off;
}

Array random_ids(const BenchTask& task, int64_t tokens, int64_t first, int64_t past) {
  Random random = random_of(task);
  Array ids = Array::empty({task.batch, tokens}, TorchDtype::kInt64);
  std::generate_n(ids.mutable_data<int64_t>(), ids.numel(),
                  [&] { return first + random.below(past - first); });
  return ids;
}

void fail_precision(const char* kind, bool engine, Precision precision) {
  fail_usage(precision, engine ? " is not a precision of the " : " needs the engine for ", kind,
             engine ? " engine." : " models.");
}

Array BenchPictures::draw_input(const BenchTask& task) const {
  Random random = random_of(task);
  Array pictures = Array::empty({task.batch, config_.in_channels, task.size, task.size});
  std::generate_n(pictures.mutable_data(), pictures.numel(),
                  [&] { return float(random.normal()); });
  return pictures;
}

BenchRunner BenchPictures::make_runner(const BenchTask&, const Array& input, Precision precision,
                                       bool engine) {
  if (!facts_of(precision).packing) fail_precision(facts.kind, engine, precision);
  BenchRunner runner;
  runner.weight_bytes = weights_ * facts_of(precision).bits / 8;
  const std::shared_ptr<PictureEngine> made = open_(precision);
  runner.run = [made, input, classes = config_.classes] {
    Array logits = Array::empty({input.size(0), classes});
    made->forward(input.data(), input.size(0), input.size(2), input.size(3), logits.mutable_data());
    return logits;
  };
  return runner;
}

BenchTexts::BenchTexts(const LanguageConfig& config, Open open)
    : BenchModel({"language",
                  "tokens",
                  config.mixer,
                  config.positions == "learned" ? std::max<int64_t>(1, config.block / 2) : 512,
                  {"prefill", "decode"}}),
      vocab_(config.vocab),
      open_(std::move(open)) {}

Array BenchTexts::draw_input(const BenchTask& task) const {
  const int64_t more = task.test == "decode" ? task.steps : 0;
  return random_ids(task, task.size + more, 0, vocab_);
}

BenchRunner BenchTexts::make_runner(const BenchTask& task, const Array& input, Precision precision,
                                    bool) {
  const std::shared_ptr<EngineModel> made = open_(precision);
  const auto extend = [made](const Array& ids, LanguageState& state) {
    return made->extend(ids.data<int64_t>(), ids.size(0), ids.size(1), state);
  };
  BenchRunner runner = runner_of(task, input, extend, copy_of);
  runner.weight_bytes = made->step_bytes();
  return runner;
}

BenchRunner BenchTexts::runner_of(const BenchTask& task, const Array& ids, const Extend& extend,
                                  LanguageState (*copy)(const LanguageState&)) {
  BenchRunner runner;
  if (task.test != "decode") {
    runner.run = [extend, ids] {
      LanguageState state;
      return extend(ids, state);
    };
    return runner;
  }
  // All repetitions continue from the same state.
  auto start = std::make_shared<LanguageState>(), state = std::make_shared<LanguageState>();
  extend(columns_of(ids, 0, task.size), *start);
  std::vector<Array> tokens;
  for (int64_t i = 0; i < task.steps; ++i) tokens.push_back(columns_of(ids, task.size + i, 1));
  runner.prepare = [start, state, copy] { *state = copy(*start); };
  runner.run = [extend, tokens, state] {
    Array last;
    for (const Array& next : tokens) last = extend(next, *state);
    return last;
  };
  return runner;
}

}  // namespace tost
