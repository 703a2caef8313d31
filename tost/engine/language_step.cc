#include "tost/engine/language_step.h"

#include <algorithm>

#include "tost/base/checked.h"
#include "tost/engine/packed_linear.h"
#include "tost/engine/text_trace.h"
#include "tost/kernels/isa.h"
#include "tost/kernels/products/few_rows.h"
#include "tost/kernels/products/wide_rows.h"

namespace tost {

using kernels::kMostFewRows;
using kernels::kPanelColumns;
using kernels::WeightType;

namespace {

// The weights of a part, which a thread computes before it looks for the next.
constexpr int64_t kPartBytes = 32 << 10, kRoundedPartBytes = 96 << 10;

float* numbers(Array& x) {
  return x.mutable_data();
}

}  // namespace

LanguageStep::LanguageStep(const LanguageWeights& weights)
    : weights_(weights), dim_(weights.config.dim), widest_(std::max(dim_, weights.mlp_hidden)) {
  for (size_t i = 0; i < weights_.blocks.size(); ++i) {
    const auto& b = weights_.blocks[i];
    stages_.insert(stages_.end(), {{Work::kIn, i, &b.in},
                                   {Work::kMix, i, nullptr},
                                   {Work::kOut, i, &b.out},
                                   {Work::kFc, i, &b.fc},
                                   {Work::kProj, i, &b.proj}});
  }
  stages_.push_back({Work::kHead, 0, &weights_.table});
}

void LanguageStep::reserve(int threads) {
  if (room_ < batch_ * tokens_) {
    const int64_t room = std::max(kMostFewRows, batch_ * tokens_);
    const auto rows = [room](int64_t width) { return Array::empty({room, width}); };
    x_ = rows(dim_);
    int64_t most = 3 * dim_, steps = 1;
    for (const auto& b : weights_.blocks) {
      most = std::max(most, b.in.outputs());
      if (b.kind == BlockMixer::kDelta) steps = b.delta.steps;
    }
    w_ = rows(most);
    y_ = rows(dim_);
    sums_ = rows(weights_.mlp_hidden);
    hidden_ = rows(weights_.mlp_hidden);
    pi_ = rows(steps * weights_.config.heads);
    base_ = rows(dim_);
    forget_ = rows(weights_.config.heads);
    gate_ = rows(dim_);
    room_ = room;  // once all memory is there
  }
  const int64_t prepared = narrow_ ? widest_ * 2 : kernels::prepared_stride(weights_.type, widest_);
  scratch_bytes_ = aligned(room_ * dim_ * 4) + aligned(room_ * prepared) + 64;
  const int64_t wanted = threads * scratch_bytes_;
  if (scratch_.bytes() < wanted) scratch_ = Array::empty({wanted}, TorchDtype::kUInt8);
}

// Copies shared sums of states, so that the sums can be changed in place.
void LanguageStep::prepare_states() {
  const int64_t size = 2 * dim_ + weights_.config.heads;
  const int64_t batch = batch_ / int64_t(states_.size());
  statistics_.assign(weights_.blocks.size() * states_.size(), nullptr);
  past_.assign(statistics_.size(), nullptr);
  means_.assign(statistics_.size(), {});
  deltas_.assign(statistics_.size(), {});
  softmaxes_.assign(statistics_.size(), {});
  for (size_t i = 0; i < statistics_.size(); ++i) {
    const auto& block = weights_.blocks[i / states_.size()];
    Arrays& own = states_[i % states_.size()]->blocks[i / states_.size()];
    if (block.kind == BlockMixer::kMeans) means_[i].emplace(block.means, batch, own);
    if (block.kind == BlockMixer::kDelta) deltas_[i].emplace(block.delta, batch, own);
    if (block.kind == BlockMixer::kSoftmax) {
      softmaxes_[i].emplace(block.softmax, batch, tokens_, own);
    }
    if (block.kind != BlockMixer::kTssa) continue;
    statistics_[i] =
        owned_state(own, "statistics", {batch, size}, TorchDtype::kFloat64).mutable_data<double>();
    if (!block.filter.defined()) continue;
    const Array::Shape earlier{batch, block.filter.size(0) - 1, dim_};
    past_[i] = owned_state(own, "conv", earlier, TorchDtype::kFloat32).mutable_data();
  }
}

void LanguageStep::expect_texts() {
  narrow_ = weights_.type == WeightType::kBfloat16 && multiplies_as_packed(Packing::kBfloat16) &&
            dim_ % 32 == 0 && weights_.mlp_hidden % 32 == 0;
}

void LanguageStep::run(const int64_t* ids, int64_t batch, int64_t tokens, LanguageState& state,
                       float* logits, std::vector<TracedBlock>* traced) {
  batch_ = batch;
  tokens_ = tokens;
  states_ = {&state};
  traced_ = traced;
  rounds_ = false;
  run_stages(ids, logits);
  traced_ = nullptr;
}

void LanguageStep::run_texts(const std::vector<int64_t>& ids,
                             const std::vector<LanguageState*>& states, float* logits) {
  batch_ = int64_t(ids.size());
  tokens_ = 1;
  states_ = states;
  rounds_ = narrow_;
  run_stages(ids.data(), logits);
}

void LanguageStep::run_stages(const int64_t* ids, float* logits) {
  logits_ = logits;
  kernels::current_isa_target();  // a wrong TOST_ISA is told here, not in another thread
  const int threads = engine_threads();
  reserve(threads);
  const int64_t rows = batch_ * tokens_, of_text = rows / int64_t(states_.size());
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t position = states_[size_t(r / of_text)]->position + r % tokens_;
    weights_.embed(ids[r], position, numbers(x_) + r * dim_);
  }
  if (traced_ != nullptr) before_ = x_.clone();
  prepare_states();
  prepare_workspace(threads);
  const size_t count = stages_.size() - (logits == nullptr ? 1 : 0);
  for (size_t i = 0, end; i < count; i = end) {
    end = traced_ == nullptr ? count : i + 1;
    do_stages(
        threads, i, end, [&](size_t s) { return parts_of(stages_[s], threads); },
        [&](size_t s, const StagePart& part) { work(stages_[s], part); });
    trace(stages_[i]);
  }
  for (auto& state : softmaxes_) {
    if (state) state->keep();
  }
}

// Notes the numbers of a stage that has ended, where they are wanted.
void LanguageStep::trace(const Stage& stage) {
  if (traced_ == nullptr) return;
  const auto& block = weights_.blocks[stage.block];
  TracedBlock& seen = (*traced_)[stage.block];
  if (stage.work == Work::kMix && block.kind == BlockMixer::kTssa) {
    seen.add_memberships(pi_.data(), weights_.config.heads, tokens_);
  } else if (stage.work == Work::kMix && block.kind == BlockMixer::kMeans) {
    seen.add_means(block.means, tokens_, w_.data(), pi_.data());
  } else if (stage.work == Work::kOut) {
    seen.add_effect(before_.data(), x_.data(), tokens_, dim_);
  } else if (stage.work == Work::kProj) {
    before_ = x_.clone();
  }
}

// The unit in which threads divide outputs: a panel, or all that one tile may have.
int64_t LanguageStep::output_unit(int64_t rows) const {
  if (rounds_) return kernels::shared_columns(kernels::Numbers::kBfloat16);
  return rows <= kMostFewRows ? kPanelColumns : 3 * kPanelColumns;
}

int64_t LanguageStep::parts_of(const Stage& stage, int threads) const {
  if (stage.work != Work::kMix) {
    const int64_t bytes = stage.map->values.bytes(), outputs = stage.map->outputs();
    const int64_t least = rounds_ ? kRoundedPartBytes : kPartBytes;
    return std::max<int64_t>(
        threads, bytes / std::max(least, bytes / outputs * output_unit(batch_ * tokens_)));
  }
  const BlockMixer kind = weights_.blocks[stage.block].kind;
  const bool heads = kind == BlockMixer::kDelta || kind == BlockMixer::kSoftmax;
  return heads ? batch_ * weights_.config.heads : int64_t(states_.size());
}

void LanguageStep::work(const Stage& stage, const StagePart& part) {
  const auto& block = weights_.blocks[stage.block];
  const int64_t rows = batch_ * tokens_;
  switch (stage.work) {
    case Work::kIn: {
      const float* x = normed(block.norm1, 0, rows, part);
      multiply(block.in, x, rows, numbers(w_), nullptr, part);
      const StagePart rest{part.index, part.count, part.thread, false};  // x is prepared
      multiply(block.router, x, rows, numbers(pi_), nullptr, rest);
      multiply(block.forget, x, rows, numbers(forget_), nullptr, rest);
      multiply(block.gate, x, rows, numbers(gate_), nullptr, rest);
      break;
    }
    case Work::kMix:
      if (block.kind == BlockMixer::kTssa) tssa(stage, part);
      if (block.kind == BlockMixer::kMeans) means(stage, part);
      if (block.kind == BlockMixer::kDelta) delta(stage, part);
      if (block.kind == BlockMixer::kSoftmax) softmax(stage, part);
      break;
    case Work::kOut:
      multiply(block.out, numbers(y_), rows, numbers(x_), &block.gamma1, part);
      break;
    case Work::kFc:
      expand(block, normed(block.norm2, 0, rows, part), part);
      break;
    case Work::kProj:
      multiply(block.proj, numbers(hidden_), rows, numbers(x_), &block.gamma2, part);
      break;
    case Work::kHead:
      multiply(weights_.table, normed(weights_.norm, tokens_ - 1, batch_, part), batch_, logits_,
               nullptr, part);
      break;
  }
}

// The rows `first`, 2 `first` + 1 and so on after a norm.
const float* LanguageStep::normed(const NormWeight& norm, int64_t first, int64_t rows,
                                  const StagePart& part) {
  float* y = scratch(part);
  kernels::NormRowsArgs a = norm.args(x_.data() + first * dim_, rows, y);
  a.x_stride = (first + 1) * dim_;
  if (part.first) kernels::norm_rows(a);
  return y;
}

std::pair<int64_t, int64_t> LanguageStep::multiply(const StepWeight& weight, const float* x,
                                                   int64_t rows, float* y, const Array* gamma,
                                                   const StagePart& part) {
  if (!weight.defined()) return {0, 0};
  const int64_t outputs = weight.outputs(), unit = output_unit(rows);
  const int64_t units = divide_up(outputs, unit);
  const std::pair range{std::min(outputs, units * part.index / part.count * unit),
                        std::min(outputs, units * (part.index + 1) / part.count * unit)};
  kernels::FewRowsArgs a;
  a.rows = rows;
  a.inputs = weight.inputs;
  a.outputs = outputs;
  a.type = weight.type;
  a.x = x;
  a.weight = weight.values.data<void>();
  a.scales = weight.scales.data<void>();
  a.bias = weight.bias.data();
  if (gamma != nullptr) a.gamma = gamma->data();
  a.y = y;
  void* prepared = scratch(part) + aligned(room_ * dim_ * 4) / 4;
  if (rounds_) {
    a.rounded = static_cast<uint16_t*>(prepared);
    if (part.first) kernels::round_rows(x, rows, weight.inputs, static_cast<uint16_t*>(prepared));
  } else if (kernels::prepared_stride(weight.type, weight.inputs) > 0) {
    if (part.first) kernels::prepare_few_rows(weight.type, x, rows, weight.inputs, prepared);
    a.prepared = prepared;
  }
  kernels::linear_few_rows(a, range.first, range.second);
  return range;
}

void LanguageStep::expand(const LanguageBlockWeights& block, const float* x,
                          const StagePart& part) {
  const int64_t rows = batch_ * tokens_, hidden = weights_.mlp_hidden;
  const auto [begin, end] = multiply(block.fc, x, rows, numbers(sums_), nullptr, part);
  kernels::FinishRowsArgs a;
  a.rows = rows;
  a.columns = end - begin;
  a.sums = numbers(sums_) + begin;
  a.sums_stride = hidden;
  a.activation = weights_.activation;
  a.out = numbers(hidden_) + begin;
  a.out_stride = hidden;
  kernels::finish_rows(a);
}

// The arguments for the texts that share state `text`.
kernels::CausalForwardArgs LanguageStep::tssa_args(int64_t text) {
  kernels::CausalForwardArgs a;
  const int64_t heads = weights_.config.heads, batch = batch_ / int64_t(states_.size());
  const int64_t first = text * batch * tokens_ * dim_;
  a.shape = {batch, tokens_, heads, dim_ / heads};
  a.w = {numbers(w_) + first, tokens_ * dim_, dim_};
  a.y = {numbers(y_) + first, tokens_ * dim_, dim_};
  return a;
}

void LanguageStep::prepare_workspace(int threads) {
  int64_t each = kernels::causal_forward_workspace(tssa_args(0), 1);
  const int64_t batch = batch_ / int64_t(states_.size());
  for (size_t i = 0; i < weights_.blocks.size(); ++i) {
    const auto& block = weights_.blocks[i];
    if (block.kind == BlockMixer::kMeans) {
      each = std::max(each, mix_means_workspace(block.means, batch, tokens_));
    } else if (block.kind == BlockMixer::kDelta) {
      each = std::max(each, mix_delta_workspace(block.delta, tokens_));
    } else if (block.kind == BlockMixer::kSoftmax) {
      for (size_t text = 0; text < states_.size(); ++text) {
        const int64_t cached = softmaxes_[i * states_.size() + text]->cached;
        each = std::max(each, mix_softmax_workspace(block.softmax, tokens_, cached));
      }
    }
  }
  workspace_bytes_ = aligned(each) + 64;
  const int64_t bytes = threads * workspace_bytes_;
  if (workspace_.bytes() < bytes) workspace_ = Array::empty({bytes}, TorchDtype::kUInt8);
}

// Mixes a text by TSSA.
void LanguageStep::tssa(const Stage& stage, const StagePart& part) {
  const auto& block = weights_.blocks[stage.block];
  auto a = tssa_args(part.index);
  const int64_t size = a.shape.batch * tokens_ * dim_, first = part.index * size;
  if (block.filter.defined()) {
    convolve_texts(block.filter, a.shape.batch, tokens_, w_.data() + first,
                   past_[of_text(stage, part.index)], numbers(base_) + first);
    a.w.data = numbers(base_) + first;
  }
  a.temp = block.temp.data();
  a.bias = {block.denom_bias.data(), block.denom_bias.size(1),
            states_[size_t(part.index)]->position};
  a.state = a.next_state = statistics_[of_text(stage, part.index)];
  if (traced_ != nullptr) a.pi = numbers(pi_);
  kernels::causal_forward(a, workspace(part), serial_for, 1);
  float* y = numbers(y_) + first;
  for (int64_t i = 0; block.scale != 1 && i < size; ++i) y[i] *= float(block.scale);
  if (block.gate.defined()) multiply_by_silu(gate_.data() + first, size, y);
}

// Mixes a text by group means.
void LanguageStep::means(const Stage& stage, const StagePart& part) {
  const auto& weights = weights_.blocks[stage.block].means;
  const int64_t batch = batch_ / int64_t(states_.size());
  const MeansState& means = *means_[of_text(stage, part.index)];
  const int64_t first = part.index * batch * tokens_;  // row
  mix_means(weights,
            {.batch = batch,
             .tokens = tokens_,
             .parts = numbers(w_) + first * (weights.gate ? 3 : 2) * dim_,
             .pi = numbers(pi_) + first * weights.heads,
             .base = numbers(base_) + first * dim_,
             .y = numbers(y_) + first * dim_,
             .sums = means.sums,
             .past = means.past},
            workspace(part), serial_for);
}

LanguageStep::Head LanguageStep::head_of(const Stage& stage, const StagePart& part) const {
  const int64_t texts = int64_t(states_.size()), heads = batch_ / texts * weights_.config.heads;
  const int64_t text = part.index / heads;
  return {of_text(stage, text), text * (batch_ / texts) * tokens_, part.index % heads};
}

void LanguageStep::delta(const Stage& stage, const StagePart& part) {
  const auto& block = weights_.blocks[stage.block];
  const auto& weights = block.delta;
  const auto [state, first, index] = head_of(stage, part);
  DeltaMix mix{.tokens = tokens_,
               .parts = w_.data() + first * weights.parts() * dim_,
               .beta = pi_.data() + first * weights.steps * weights.heads,
               .y = numbers(y_) + first * dim_,
               .memory = deltas_[state]->memory,
               .past = deltas_[state]->past};
  if (block.forget.defined()) mix.forget = forget_.data() + first * weights.heads;
  if (block.gate.defined()) mix.gate = gate_.data() + first * dim_;
  mix_delta(weights, mix, index, workspace(part));
}

void LanguageStep::softmax(const Stage& stage, const StagePart& part) {
  const auto& block = weights_.blocks[stage.block];
  const auto [state, first, index] = head_of(stage, part);
  SoftmaxMix mix{.tokens = tokens_,
                 .parts = w_.data() + first * 3 * dim_,
                 .y = numbers(y_) + first * dim_,
                 .state = &*softmaxes_[state]};
  if (block.gate.defined()) mix.gate = gate_.data() + first * dim_;
  mix_softmax(block.softmax, mix, index, workspace(part));
}

void LanguageStep::head(const float* rows, int64_t count, float* logits) {
  const int64_t parts = engine_threads();
  rounds_ = false;
  parallel_tasks(parts, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      multiply(weights_.table, rows, count, logits, nullptr, {i, parts, 0, true});
    }
  });
}

}  // namespace tost
