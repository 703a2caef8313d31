#include "tost/engine/language_engine.h"

#include <algorithm>
#include <limits>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/engine/mixer_names.h"
#include "tost/engine/quantized_weight.h"
#include "tost/engine/text_trace.h"
#include "tost/engine/threads.h"

namespace tost {
namespace {

using kernels::kMostFewRows;

constexpr int64_t kStepRows = 64;                    // at a time
constexpr int64_t kPassingTokens = 384;              // at a time
constexpr int64_t kScoredLogits = int64_t{1} << 23;  // at a time, 32 MiB

// Tokens [first, first + count) of every text.
std::vector<int64_t> part_of(const int64_t* ids, int64_t batch, int64_t tokens, int64_t first,
                             int64_t count) {
  std::vector<int64_t> part;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t* from = ids + b * tokens + first;
    part.insert(part.end(), from, from + count);
  }
  return part;
}

}  // namespace

EngineModel::EngineModel(std::unique_ptr<LanguageWeights> weights, Precision precision,
                         Layout layout, Arrays stored)
    : weights_(std::move(weights)),
      precision_(precision),
      layout_(layout),
      stored_(std::move(stored)),
      step_(*weights_) {}

// The largest number of rows that steps read. Products are faster for more rows, unless weights
// must be laid out again in each call and are multiplied in float32.
int64_t EngineModel::rows_by_steps() const {
  if (layout_ == Layout::kStored) return 16;
  return multiplies_bfloat16(*weights_) ? kStepRows : std::numeric_limits<int64_t>::max();
}

LanguagePrefill& EngineModel::prefill() {
  if (!prefill_) prefill_.emplace(*weights_, layout_);
  return *prefill_;
}

void EngineModel::norm(const float* rows, int64_t count, float* to) const {
  kernels::norm_rows(weights_->norm.args(rows, count, to));
}

void EngineModel::read(const int64_t* ids, int64_t batch, int64_t tokens, LanguageState& state,
                       float* logits, float* hidden, std::vector<TracedBlock>* traced) {
  if (tokens == 0) fail_data("There are no tokens to read.");
  check_ids(config(), ids, batch * tokens);
  check_position(config(), state.position, tokens);
  state.blocks.resize(weights_->blocks.size());
  if (batch == 0) return;
  const int64_t dim = config().dim;
  const bool rows_wanted = hidden != nullptr && (batch > 1 || layout_ == Layout::kStored);
  const bool few = batch * tokens <= rows_by_steps() && batch <= kMostFewRows;
  const bool steps = traced != nullptr || (few && !rows_wanted);
  // Shorter pieces save memory, which matters most next to small weights.
  const int64_t piece = layout_ == Layout::kStored ? kPieceTokens : kPassingTokens;
  const int64_t at_once = std::max<int64_t>(1, (steps ? kStepRows : piece) / batch);
  for (int64_t t = 0; t < tokens; t += at_once) {
    const int64_t count = std::min(at_once, tokens - t);
    const bool last = t + count == tokens;
    const auto part = part_of(ids, batch, tokens, t, count);
    if (steps) {
      step_.run(part.data(), batch, count, state, last ? logits : nullptr, traced);
      if (hidden != nullptr) norm(step_.stream(), batch * count, hidden + t * dim);
      state.position += count;
      continue;
    }
    const float* x = prefill().run(part.data(), batch, count, state);
    state.position += count;
    for (int64_t b = 0; hidden != nullptr && b < batch; ++b) {
      norm(x + b * count * dim, count, hidden + (b * tokens + t) * dim);
    }
    if (!last || logits == nullptr) continue;
    Array rows = Array::empty({batch, dim});
    for (int64_t b = 0; b < batch; ++b) {
      norm(x + ((b + 1) * count - 1) * dim, 1, rows.mutable_data() + b * dim);
    }
    step_.head(rows.data(), batch, logits);
  }
}

Array EngineModel::extend(const int64_t* ids, int64_t batch, int64_t tokens, LanguageState& state) {
  Array logits = Array::empty({batch, config().vocab});
  read(ids, batch, tokens, state, logits.mutable_data(), nullptr);
  return logits;
}

Array EngineModel::extend(const int64_t* ids, int64_t tokens, LanguageState& state,
                          std::vector<TracedBlock>& traced) {
  Array logits = Array::empty({1, config().vocab});
  traced.resize(weights_->blocks.size());
  read(ids, 1, tokens, state, logits.mutable_data(), nullptr, &traced);
  return logits;
}

Array EngineModel::hidden(const int64_t* ids, int64_t batch, int64_t tokens, LanguageState& state) {
  Array rows = Array::empty({batch * tokens, config().dim});
  read(ids, batch, tokens, state, nullptr, rows.mutable_data());
  return rows;
}

Array EngineModel::logits(const Array& rows) {
  const int64_t count = rows.size(0);
  Array logits = Array::empty({count, config().vocab});
  if (count > rows_by_steps()) {
    prefill().head(rows.data(), count, logits.mutable_data());
  } else {
    step_.head(rows.data(), count, logits.mutable_data());
  }
  return logits;
}

TokenScores EngineModel::score(const int64_t* ids, const int64_t* targets, int64_t batch,
                               int64_t tokens, LanguageState* state) {
  LanguageState own;
  const Array read = hidden(ids, batch, tokens, state != nullptr ? *state : own);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < batch * tokens; ++i) {
    if (targets[i] >= 0) places.push_back(i);
  }
  const int64_t dim = config().dim, vocab = config().vocab, total = int64_t(places.size());
  TokenScores scores{std::vector<float>(places.size()), std::vector<char>(places.size())};
  const int64_t step = std::max<int64_t>(1, kScoredLogits / vocab);
  for (int64_t first = 0; first < total; first += step) {
    const int64_t count = std::min(step, total - first);
    Array rows = Array::empty({count, dim});
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(read.data() + places[size_t(first + i)] * dim, dim,
                  rows.mutable_data() + i * dim);
    }
    const Array found = logits(rows);
    parallel_tasks(count, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto at = size_t(first + i);
        const float *row = found.data() + i * vocab, *target = row + targets[places[at]];
        scores.loss[at] = float(log_total(row, vocab) - *target);
        scores.likely[at] = std::max_element(row, row + vocab) == target;
      }
    });
  }
  return scores;
}

TracedText EngineModel::trace(const std::vector<int64_t>& ids) {
  const int64_t tokens = int64_t(ids.size()), dim = config().dim, vocab = config().vocab;
  TracedText text{.blocks = std::vector<TracedBlock>(weights_->blocks.size())};
  for (size_t i = 0; i < text.blocks.size(); ++i) {
    text.blocks[i].mixer = mixer_of_block(config(), int64_t(i));
  }
  LanguageState state;
  Array rows = Array::empty({tokens, dim}), logits = Array::empty({kStepRows, vocab});
  read(ids.data(), 1, tokens, state, nullptr, rows.mutable_data(), &text.blocks);
  for (int64_t t = 0; t + 1 < tokens; ++t) {
    const int64_t place = t % kStepRows, count = std::min(kStepRows, tokens - t);
    if (place == 0) step_.head(rows.data() + t * dim, count, logits.mutable_data());
    const float* row = logits.data() + place * vocab;
    text.surprisal.push_back(log_total(row, vocab) - row[ids[size_t(t + 1)]]);
  }
  return text;
}

Array EngineModel::step(const std::vector<int64_t>& ids,
                        const std::vector<LanguageState*>& states) {
  check_ids(config(), ids.data(), int64_t(ids.size()));
  for (auto* state : states) {
    check_position(config(), state->position, 1);
    state->blocks.resize(weights_->blocks.size());
  }
  const auto count = int64_t(ids.size());
  const Array::Shape shape{count, config().vocab};
  if (!logits_.unique() || logits_.shape() != shape) logits_ = Array::empty(shape);
  if (ids.empty()) return logits_;
  step_.run_texts(ids, states, logits_.mutable_data());
  for (auto* state : states) ++state->position;
  return logits_;
}

void EngineModel::each_weight(function_ref<void(const Array&)> visit) const {
  for (const auto& [name, array] : stored_) {
    if (ends_with(name, ".weight.scale")) continue;
    const auto scales = stored_.find(name + ".scale");
    if (scales == stored_.end()) {
      visit(array);
      array.forget();
      continue;
    }
    const bool onto_stream = ends_with(name, "mlp.c_proj.weight");
    const int64_t inputs = onto_stream ? weights_->mlp_hidden : config().dim;
    visit(dequantize(
        stored_integers(array, scales->second, array.size(0), inputs, name, "The model")));
  }
}

}  // namespace tost
