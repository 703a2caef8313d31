#include "tost/kinds/language/engine_step.h"

#include <ATen/Parallel.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/rounding.h"
#include "tost/kernels/isa.h"
#include "tost/kernels/row_ops.h"
#include "tost/kernels/tssa_causal.h"
#include "tost/nn/causal_attention.h"
#include "tost/ops/kernel_call.h"

namespace tost {

using kernels::kMostFewRows;
using kernels::WeightType;
using torch::Tensor;

namespace {

constexpr int64_t kOutputUnit =
    16;  // outputs of a thread's share are a multiple: whole cache lines

float* numbers(const Tensor& x) {
  return x.mutable_data_ptr<float>();
}

// body(thread, threads) on every thread at once; the threads may wait for one another in it.
template <class Body>
void on_all_threads(int threads, const Body& body) {
#ifdef _OPENMP
#pragma omp parallel num_threads(threads) if (threads > 1)
  body(omp_get_thread_num(), omp_get_num_threads());
#else
  body(0, 1);
#endif
}

void wait_for_all() {
#ifdef _OPENMP
#pragma omp barrier
#endif
}

}  // namespace

LanguageStep::LanguageStep(const LanguageWeights& weights)
    : weights_(weights),
      dim_(weights.model->config().dim),
      widest_(std::max(dim_, weights.mlp_hidden)) {
  const auto rows = [](int64_t width) { return torch::empty({kMostFewRows, width}); };
  x_ = rows(dim_);
  w_ = rows(3 * dim_);
  y_ = rows(dim_);
  sums_ = rows(weights.mlp_hidden);
  hidden_ = rows(weights.mlp_hidden);
  pi_ = rows(weights.model->config().heads);
  base_ = rows(dim_);
  statistics_.resize(weights.blocks.size());
  means_.resize(weights.blocks.size());
  add_stages();
}

void LanguageStep::add_stages() {
  for (size_t i = 0; i < weights_.blocks.size(); ++i) {
    const auto block = int64_t(i);
    switch (weights_.blocks[i].kind) {
      case BlockMixer::kTssa:
        stages_.insert(stages_.end(),
                       {{Work::kIn, block}, {Work::kTssa, block}, {Work::kOut, block}});
        break;
      case BlockMixer::kMeans:
        stages_.insert(stages_.end(),
                       {{Work::kIn, block}, {Work::kMeans, block}, {Work::kOut, block}});
        break;
      case BlockMixer::kSoftmax:
        stages_.insert(stages_.end(),
                       {{Work::kIn, block}, {Work::kAttention, block}, {Work::kOut, block}});
        break;
      case BlockMixer::kModule:
        stages_.push_back({Work::kModule, block});
    }
    stages_.insert(stages_.end(), {{Work::kFc, block}, {Work::kProj, block}});
  }
  stages_.push_back({Work::kHead, 0});
}

void LanguageStep::reserve(int threads) {
  own_bytes_ = aligned(kMostFewRows * dim_ * 4) +
               aligned(kernels::int4_input_bytes(kMostFewRows, widest_)) + 64;
  const int64_t wanted = threads * own_bytes_;
  if (!own_.defined() || own_.numel() < wanted) own_ = torch::empty({wanted}, torch::kByte);
}

// A thread's scratch: rows after a norm, behind them inputs for weights of four bits.
float* LanguageStep::normed(int thread) {
  return reinterpret_cast<float*>(own_.mutable_data_ptr<uint8_t>() + thread * own_bytes_);
}

void LanguageStep::embed(const int64_t* ids) {
  for (int64_t r = 0; r < batch_ * tokens_; ++r) {
    weights_.embed(ids[r], position_ + r % tokens_, numbers(x_) + r * dim_);
  }
}

// Sums that nobody else holds, to be changed in place.
void LanguageStep::prepare_states(LanguageState& state) {
  const int64_t size = 2 * dim_ + weights_.model->config().heads;
  for (size_t i = 0; i < weights_.blocks.size(); ++i) {
    const auto& block = weights_.blocks[i];
    if (block.kind == BlockMixer::kMeans) means_[i].emplace(block.means, batch_, state.blocks[i]);
    if (block.kind != BlockMixer::kTssa) continue;
    Tensor& sums = state.blocks[i]["statistics"];
    if (!sums.defined()) sums = torch::zeros({batch_, size}, torch::kDouble);
    check_state(sums, {batch_, size});
    if (sums.use_count() > 1 || !sums.is_contiguous())
      sums = sums.clone(at::MemoryFormat::Contiguous);
    statistics_[i] = sums.mutable_data_ptr<double>();
  }
}

void LanguageStep::run(const Tensor& ids, LanguageState& state, float* logits) {
  batch_ = ids.size(0);
  tokens_ = ids.size(1);
  position_ = state.position;
  logits_ = logits;
  kernels::current_isa_target();  // a wrong TOST_ISA is told here, not in another thread
  const int threads = torch_threads();
  reserve(threads);
  prepare_states(state);
  prepare_workspace();
  embed(ids.const_data_ptr<int64_t>());
  const size_t count = stages_.size() - (logits == nullptr ? 1 : 0);
  for (size_t i = 0; i < count;) {
    if (stages_[i].work == Work::kAttention || stages_[i].work == Work::kModule) {
      call_module(stages_[i], state);
      ++i;
      continue;
    }
    size_t end = i;
    while (end < count && stages_[end].work != Work::kAttention &&
           stages_[end].work != Work::kModule) {
      ++end;
    }
    on_all_threads(threads, [&](int thread, int all) {
      for (size_t s = i; s < end; ++s) {
        work(stages_[s], thread, all);
        wait_for_all();
      }
    });
    i = end;
  }
}

void LanguageStep::work(const Stage& stage, int thread, int threads) {
  const auto& block = weights_.blocks[size_t(stage.block)];
  const int64_t rows = batch_ * tokens_;
  float* own = normed(thread);
  switch (stage.work) {
    case Work::kIn:
      norm_rows(block.norm1, numbers(x_), dim_, rows, own);
      multiply(block.in, own, rows, numbers(w_), nullptr, thread, threads);
      if (block.router.values.defined()) {
        multiply(block.router, own, rows, numbers(pi_), nullptr, thread, threads);
      }
      break;
    case Work::kTssa:
      if (thread == 0) tssa(block, statistics_[size_t(stage.block)]);
      break;
    case Work::kMeans:
      if (thread == 0) means(block, *means_[size_t(stage.block)]);
      break;
    case Work::kOut:
      multiply(block.out, numbers(y_), rows, numbers(x_), &block.gamma1, thread, threads);
      break;
    case Work::kFc:
      norm_rows(block.norm2, numbers(x_), dim_, rows, own);
      expand(block, own, thread, threads);
      break;
    case Work::kProj:
      multiply(block.proj, numbers(hidden_), rows, numbers(x_), &block.gamma2, thread, threads);
      break;
    case Work::kHead:
      norm_rows(weights_.norm, numbers(x_) + (tokens_ - 1) * dim_, tokens_ * dim_, batch_, own);
      multiply(weights_.table, own, batch_, logits_, nullptr, thread, threads);
      break;
    case Work::kAttention:
    case Work::kModule:
      break;
  }
}

void LanguageStep::norm_rows(const NormWeight& norm, const float* x, int64_t stride, int64_t rows,
                             float* y) const {
  kernels::NormRowsArgs a;
  a.rows = rows;
  a.width = dim_;
  a.x = x;
  a.x_stride = stride;
  a.weight = norm.weight.const_data_ptr<float>();
  a.bias = norm.bias.defined() ? norm.bias.const_data_ptr<float>() : nullptr;
  a.eps = NormWeight::kEps;
  a.y = y;
  a.y_stride = dim_;
  kernels::norm_rows(a);
}

LanguageStep::Range LanguageStep::multiply(const StepWeight& weight, const float* x, int64_t rows,
                                           float* y, const Tensor* gamma, int thread, int threads) {
  const int64_t outputs = weight.outputs(), units = (outputs + kOutputUnit - 1) / kOutputUnit;
  const Range range{std::min(outputs, units * thread / threads * kOutputUnit),
                    std::min(outputs, units * (thread + 1) / threads * kOutputUnit)};
  kernels::FewRowsArgs a;
  a.rows = rows;
  a.inputs = weight.inputs;
  a.outputs = outputs;
  a.type = weight.type;
  a.x = x;
  a.weight = weight.values.const_data_ptr();
  if (weight.scales.defined()) a.scales = weight.scales.const_data_ptr();
  if (weight.bias.defined()) a.bias = weight.bias.const_data_ptr();
  if (gamma != nullptr) a.gamma = gamma->const_data_ptr<float>();
  a.y = y;
  if (weight.type == WeightType::kInt4) {
    void* prepared = reinterpret_cast<char*>(normed(thread)) + aligned(kMostFewRows * dim_ * 4);
    kernels::prepare_int4_input(x, rows, weight.inputs, prepared);
    a.int4_x = prepared;
  }
  kernels::linear_few_rows_part(a, range.begin, range.end);
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

kernels::CausalForwardArgs LanguageStep::tssa_args() const {
  kernels::CausalForwardArgs a;
  const int64_t heads = weights_.model->config().heads;
  a.shape = {batch_, tokens_, heads, dim_ / heads};
  a.w = {numbers(w_), tokens_ * dim_, dim_};
  a.y = {numbers(y_), tokens_ * dim_, dim_};
  return a;
}

void LanguageStep::prepare_workspace() {
  int64_t bytes = kernels::causal_forward_workspace(tssa_args(), 1) + 64;
  for (const auto& block : weights_.blocks) {
    if (block.kind != BlockMixer::kMeans) continue;
    bytes = std::max(bytes, mix_means_workspace(block.means, batch_, tokens_) + 64);
  }
  if (!workspace_.defined() || workspace_.numel() < bytes) {
    workspace_ = torch::empty({bytes}, torch::kByte);
  }
}

void LanguageStep::tssa(const LanguageBlockWeights& block, double* statistics) const {
  auto a = tssa_args();
  a.temp = block.temp.const_data_ptr<float>();
  a.bias = {block.denom_bias.const_data_ptr<float>(), block.denom_bias.size(1), position_};
  a.state = a.next_state = statistics;
  kernels::causal_forward(a, workspace_.mutable_data_ptr<uint8_t>(), serial_for, 1);
  if (block.scale == 1) return;
  for (int64_t i = 0; i < batch_ * tokens_ * dim_; ++i) numbers(y_)[i] *= float(block.scale);
}

void LanguageStep::means(const LanguageBlockWeights& block, const MeansState& state) {
  mix_means(block.means,
            {.batch = batch_,
             .tokens = tokens_,
             .parts = numbers(w_),
             .pi = numbers(pi_),
             .base = numbers(base_),
             .y = numbers(y_),
             .sums = state.sums,
             .past = state.past},
            workspace_.mutable_data_ptr<uint8_t>(), serial_for);
}

// Mixers that are torch modules, between two parallel regions.
void LanguageStep::call_module(const Stage& stage, LanguageState& state) {
  const auto& block = weights_.blocks[size_t(stage.block)];
  auto& own = state.blocks[size_t(stage.block)];
  const int64_t rows = batch_ * tokens_;
  if (stage.work == Work::kAttention) {
    const auto qkv = w_.flatten().narrow(0, 0, rows * 3 * dim_).view({batch_, tokens_, 3 * dim_});
    auto& attention = dynamic_cast<CausalAttention&>(*block.mixer);
    y_.narrow(0, 0, rows).copy_(attention.attend(qkv, &own).view({rows, dim_}));
    return;
  }
  norm_rows(block.norm1, numbers(x_), dim_, rows, numbers(y_));
  const auto input = y_.narrow(0, 0, rows).view({batch_, tokens_, dim_});
  const auto mixed = block.mixer->forward(input, {nullptr, &own, position_});
  x_.narrow(0, 0, rows).addcmul_(block.gamma1, mixed.view({rows, dim_}));
}

void LanguageStep::head(const float* rows, int64_t count, float* logits) const {
  const auto& table = weights_.table;
  for (int64_t r = 0; r < count; r += kMostFewRows) {
    kernels::FewRowsArgs a;
    a.rows = std::min(kMostFewRows, count - r);
    a.inputs = table.inputs;
    a.outputs = table.outputs();
    a.type = table.type;
    a.x = rows + r * table.inputs;
    a.weight = table.values.const_data_ptr();
    if (table.scales.defined()) a.scales = table.scales.const_data_ptr();
    a.y = logits + r * a.outputs;
    kernels::linear_few_rows(a, torch_parallel);
  }
}

}  // namespace tost
