#include "tost/engine/language_step.h"

#include <algorithm>

#include "tost/base/checked.h"
#include "tost/engine/text_trace.h"
#include "tost/engine/threads.h"
#include "tost/kernels/isa.h"
#include "tost/kernels/products/few_rows.h"

namespace tost {

using kernels::kMostFewRows;
using kernels::WeightType;

namespace {

// The unit in which threads divide outputs, so that the outputs of a thread fill whole cache lines.
constexpr int64_t kOutputUnit = 16;

float* numbers(Array& x) {
  return x.mutable_data();
}

}  // namespace

LanguageStep::LanguageStep(const LanguageWeights& weights)
    : weights_(weights), dim_(weights.config.dim), widest_(std::max(dim_, weights.mlp_hidden)) {
  for (int64_t block = 0; block < int64_t(weights_.blocks.size()); ++block) {
    for (const Work each : {Work::kIn, Work::kMix, Work::kOut, Work::kFc, Work::kProj}) {
      stages_.push_back({each, block});
    }
  }
  stages_.push_back({Work::kHead, 0});
}

void LanguageStep::reserve(int threads) {
  if (room_ < batch_ * tokens_) {
    room_ = std::max(kMostFewRows, batch_ * tokens_);
    const auto rows = [this](int64_t width) { return Array::empty({room_, width}); };
    x_ = rows(dim_);
    int64_t most = 3 * dim_, steps = 0;
    for (const auto& b : weights_.blocks) {
      most = std::max(most, b.in.outputs());
      if (b.kind == BlockMixer::kDelta) steps = b.delta.steps;
    }
    w_ = rows(most);
    y_ = rows(dim_);
    sums_ = rows(weights_.mlp_hidden);
    hidden_ = rows(weights_.mlp_hidden);
    pi_ = rows(weights_.config.heads);
    base_ = rows(dim_);
    beta_ = rows(steps * weights_.config.heads);
    forget_ = rows(weights_.config.heads);
    gate_ = rows(dim_);
  }
  scratch_bytes_ = aligned(room_ * dim_ * 4) +
                   aligned(room_ * kernels::prepared_stride(weights_.type, widest_)) + 64;
  const int64_t wanted = threads * scratch_bytes_;
  if (scratch_.bytes() < wanted) scratch_ = Array::empty({wanted}, TorchDtype::kUInt8);
}

// The workspace of a thread: rows after a norm, then inputs in a prepared layout.
float* LanguageStep::normed(int thread) {
  return reinterpret_cast<float*>(scratch_.mutable_data<char>() + thread * scratch_bytes_);
}

void LanguageStep::embed(const int64_t* ids) {
  const int64_t rows = batch_ * tokens_ / int64_t(states_.size());
  for (int64_t r = 0; r < batch_ * tokens_; ++r) {
    weights_.embed(ids[r], states_[size_t(r / rows)]->position + r % tokens_,
                   numbers(x_) + r * dim_);
  }
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

void LanguageStep::run(const int64_t* ids, int64_t batch, int64_t tokens, LanguageState& state,
                       float* logits, std::vector<TracedBlock>* traced) {
  batch_ = batch;
  tokens_ = tokens;
  states_ = {&state};
  reserve(engine_threads());
  embed(ids);
  traced_ = traced;
  if (traced != nullptr) before_ = x_.clone();
  run_stages(logits);
  traced_ = nullptr;
}

void LanguageStep::run_texts(const std::vector<int64_t>& ids,
                             const std::vector<LanguageState*>& states, float* logits) {
  batch_ = int64_t(ids.size());
  tokens_ = 1;
  states_ = states;
  reserve(engine_threads());
  embed(ids.data());
  run_stages(logits);
}

void LanguageStep::run_stages(float* logits) {
  logits_ = logits;
  kernels::current_isa_target();  // a wrong TOST_ISA is told here, not in another thread
  const int threads = engine_threads();
  prepare_states();
  prepare_workspace(threads);
  const size_t count = stages_.size() - (logits == nullptr ? 1 : 0);
  for (size_t i = 0, end; i < count; i = end) {
    end = traced_ == nullptr ? count : i + 1;
    on_all_threads(threads, [&](int thread, int all) {
      for (size_t s = i; s < end; ++s) {
        work(stages_[s], thread, all);
        wait_for_all();
      }
    });
    trace(stages_[i]);
  }
  for (auto& state : softmaxes_) {
    if (state) state->keep();
  }
}

// Notes the numbers of a stage that has ended, where they are wanted.
void LanguageStep::trace(const Stage& stage) {
  if (traced_ == nullptr) return;
  const auto& block = weights_.blocks[size_t(stage.block)];
  TracedBlock& seen = (*traced_)[size_t(stage.block)];
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

void LanguageStep::work(const Stage& stage, int thread, int threads) {
  const auto& block = weights_.blocks[size_t(stage.block)];
  const int64_t rows = batch_ * tokens_;
  float* scratch = normed(thread);
  switch (stage.work) {
    case Work::kIn:
      norm_rows(block.norm1, numbers(x_), dim_, rows, scratch);
      multiply(block.in, scratch, rows, numbers(w_), nullptr, thread, threads);
      multiply(block.router, scratch, rows, numbers(block.kind == BlockMixer::kDelta ? beta_ : pi_),
               nullptr, thread, threads);
      multiply(block.forget, scratch, rows, numbers(forget_), nullptr, thread, threads);
      multiply(block.gate, scratch, rows, numbers(gate_), nullptr, thread, threads);
      break;
    case Work::kMix:
      if (block.kind == BlockMixer::kTssa) tssa(stage, thread, threads);
      if (block.kind == BlockMixer::kMeans) means(stage, thread, threads);
      if (block.kind == BlockMixer::kDelta) delta(stage, thread, threads);
      if (block.kind == BlockMixer::kSoftmax) softmax(stage, thread, threads);
      break;
    case Work::kOut:
      multiply(block.out, numbers(y_), rows, numbers(x_), &block.gamma1, thread, threads);
      break;
    case Work::kFc:
      norm_rows(block.norm2, numbers(x_), dim_, rows, scratch);
      expand(block, scratch, thread, threads);
      break;
    case Work::kProj:
      multiply(block.proj, numbers(hidden_), rows, numbers(x_), &block.gamma2, thread, threads);
      break;
    case Work::kHead:
      norm_rows(weights_.norm, numbers(x_) + (tokens_ - 1) * dim_, tokens_ * dim_, batch_, scratch);
      multiply(weights_.table, scratch, batch_, logits_, nullptr, thread, threads);
      break;
  }
}

void LanguageStep::norm_rows(const NormWeight& norm, const float* x, int64_t stride, int64_t rows,
                             float* y) const {
  kernels::NormRowsArgs a = norm.args(x, rows, y);
  a.x_stride = stride;
  kernels::norm_rows(a);
}

LanguageStep::Range LanguageStep::multiply(const StepWeight& weight, const float* x, int64_t rows,
                                           float* y, const Array* gamma, int thread, int threads) {
  if (!weight.defined()) return {0, 0};
  const int64_t outputs = weight.outputs(), units = (outputs + kOutputUnit - 1) / kOutputUnit;
  const Range range{std::min(outputs, units * thread / threads * kOutputUnit),
                    std::min(outputs, units * (thread + 1) / threads * kOutputUnit)};
  kernels::FewRowsArgs a;
  a.rows = rows;
  a.inputs = weight.inputs;
  a.outputs = outputs;
  a.type = weight.type;
  a.x = x;
  a.weight = weight.values.data<void>();
  a.scales = weight.scales.data<void>();
  a.bias = weight.bias.data<void>();
  if (gamma != nullptr) a.gamma = gamma->data();
  a.y = y;
  if (kernels::prepared_stride(weight.type, weight.inputs) > 0) {
    void* prepared = reinterpret_cast<char*>(normed(thread)) + aligned(room_ * dim_ * 4);
    kernels::prepare_few_rows(weight.type, x, rows, weight.inputs, prepared);
    a.prepared = prepared;
  }
  kernels::linear_few_rows(a, range.begin, range.end);
  return range;
}

void LanguageStep::expand(const LanguageBlockWeights& block, const float* x, int thread,
                          int threads) {
  const int64_t rows = batch_ * tokens_, hidden = weights_.mlp_hidden;
  const auto range = multiply(block.fc, x, rows, numbers(sums_), nullptr, thread, threads);
  kernels::FinishRowsArgs a;
  a.rows = rows;
  a.columns = range.end - range.begin;
  a.sums = numbers(sums_) + range.begin;
  a.sums_stride = hidden;
  a.activation = weights_.activation;
  a.out = numbers(hidden_) + range.begin;
  a.out_stride = hidden;
  kernels::finish_rows(a);
}

// The arguments for the texts that share state `text`.
kernels::CausalForwardArgs LanguageStep::tssa_args(size_t text) {
  kernels::CausalForwardArgs a;
  const int64_t heads = weights_.config.heads, batch = batch_ / int64_t(states_.size());
  const int64_t first = int64_t(text) * batch * tokens_ * dim_;
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

// Mixes this thread's share of the texts by TSSA.
void LanguageStep::tssa(const Stage& stage, int thread, int threads) {
  const auto& block = weights_.blocks[size_t(stage.block)];
  for (size_t text = size_t(thread); text < states_.size(); text += size_t(threads)) {
    auto a = tssa_args(text);
    const int64_t size = a.shape.batch * tokens_ * dim_, first = int64_t(text) * size;
    if (block.filter.defined()) {
      convolve_texts(block.filter, a.shape.batch, tokens_, w_.data() + first,
                     past_[size_t(stage.block) * states_.size() + text], numbers(base_) + first);
      a.w.data = numbers(base_) + first;
    }
    a.temp = block.temp.data();
    a.bias = {block.denom_bias.data(), block.denom_bias.size(1), states_[text]->position};
    a.state = a.next_state = statistics_[size_t(stage.block) * states_.size() + text];
    if (traced_ != nullptr) a.pi = numbers(pi_);
    kernels::causal_forward(a, workspace_.mutable_data<char>() + thread * workspace_bytes_,
                            serial_for, 1);
    float* y = numbers(y_) + first;
    for (int64_t i = 0; block.scale != 1 && i < size; ++i) y[i] *= float(block.scale);
    if (block.gate.defined()) multiply_by_silu(gate_.data() + first, size, y);
  }
}

// Mixes this thread's share of the texts by group means.
void LanguageStep::means(const Stage& stage, int thread, int threads) {
  const auto& weights = weights_.blocks[size_t(stage.block)].means;
  const int64_t batch = batch_ / int64_t(states_.size());
  const int64_t parts = (weights.gate ? 3 : 2) * dim_;
  for (size_t text = size_t(thread); text < states_.size(); text += size_t(threads)) {
    const MeansState& means = *means_[size_t(stage.block) * states_.size() + text];
    const int64_t first = int64_t(text) * batch * tokens_;  // row
    mix_means(weights,
              {.batch = batch,
               .tokens = tokens_,
               .parts = numbers(w_) + first * parts,
               .pi = numbers(pi_) + first * weights.heads,
               .base = numbers(base_) + first * dim_,
               .y = numbers(y_) + first * dim_,
               .sums = means.sums,
               .past = means.past},
              workspace_.mutable_data<char>() + thread * workspace_bytes_, serial_for);
  }
}

template <class State, class Body>
void LanguageStep::over_heads(const Stage& stage, std::vector<std::optional<State>>& of_texts,
                              int thread, int threads, const Body& body) {
  const int64_t heads = weights_.config.heads, batch = batch_ / int64_t(states_.size());
  const int64_t last = batch_ * heads * (thread + 1) / threads;
  for (int64_t i = batch_ * heads * thread / threads; i < last; ++i) {
    const int64_t text = i / (batch * heads);
    body(*of_texts[size_t(stage.block) * states_.size() + size_t(text)], text * batch * tokens_,
         i % (batch * heads), workspace_.mutable_data<char>() + thread * workspace_bytes_);
  }
}

void LanguageStep::delta(const Stage& stage, int thread, int threads) {
  const auto& block = weights_.blocks[size_t(stage.block)];
  const auto& weights = block.delta;
  over_heads(stage, deltas_, thread, threads,
             [&](const DeltaState& state, int64_t first, int64_t index, void* workspace) {
               DeltaMix mix{.tokens = tokens_,
                            .parts = w_.data() + first * weights.parts() * dim_,
                            .beta = beta_.data() + first * weights.steps * weights.heads,
                            .y = numbers(y_) + first * dim_,
                            .memory = state.memory,
                            .past = state.past};
               if (block.forget.defined()) mix.forget = forget_.data() + first * weights.heads;
               if (block.gate.defined()) mix.gate = gate_.data() + first * dim_;
               mix_delta(weights, mix, index, workspace);
             });
}

void LanguageStep::softmax(const Stage& stage, int thread, int threads) {
  const auto& block = weights_.blocks[size_t(stage.block)];
  over_heads(stage, softmaxes_, thread, threads,
             [&](const SoftmaxState& state, int64_t first, int64_t index, void* workspace) {
               SoftmaxMix mix{.tokens = tokens_,
                              .parts = w_.data() + first * 3 * dim_,
                              .y = numbers(y_) + first * dim_,
                              .state = &state};
               if (block.gate.defined()) mix.gate = gate_.data() + first * dim_;
               mix_softmax(block.softmax, mix, index, workspace);
             });
}

void LanguageStep::head(const float* rows, int64_t count, float* logits) const {
  const auto& table = weights_.table;
  kernels::FewRowsArgs a;
  a.rows = count;
  a.inputs = table.inputs;
  a.outputs = table.outputs();
  a.type = table.type;
  a.x = rows;
  a.weight = table.values.data<void>();
  a.scales = table.scales.data<void>();
  a.y = logits;
  parallel_tasks(divide_up(a.outputs, kOutputUnit), [&](int64_t begin, int64_t end) {
    kernels::linear_few_rows(a, begin * kOutputUnit, std::min(a.outputs, end * kOutputUnit));
  });
}

void LanguageStep::last_rows(float* to) {
  norm_rows(weights_.norm, numbers(x_), dim_, batch_ * tokens_, to);
}

}  // namespace tost
