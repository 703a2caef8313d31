#include "tost/kinds/sequence/engine.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "tost/base/error.h"
#include "tost/kinds/sequence/engine_plan.h"
#include "tost/kinds/sequence/engine_tokens.h"
#include "tost/kinds/sequence/engine_weights.h"
#include "tost/nn/device_autocast.h"
#include "tost/nn/sinusoidal.h"
#include "tost/ops/kernel_call.h"

namespace tost {
namespace {

using torch::Tensor;

// From the vectors of sequences, or of pairs of them, to logits.

template <class T>
void write_row(const float* from, int64_t count, T* to) {
  for (int64_t c = 0; c < count; ++c) to[c] = from[c];
}

// a, b, a * b and a - b side by side.
template <class T>
void write_pair(const float* a, const float* b, int64_t count, T* to) {
  for (int64_t c = 0; c < count; ++c) {
    to[c] = a[c];
    to[count + c] = b[c];
    to[2 * count + c] = a[c] * b[c];
    to[3 * count + c] = a[c] - b[c];
  }
}

template <class T>
void write_features(const float* first, const float* second, int64_t rows, int64_t dim, T* to) {
  for (int64_t r = 0; r < rows; ++r, first += dim) {
    if (second == nullptr) {
      write_row(first, dim, to + r * dim);
    } else {
      write_pair(first, second + r * dim, dim, to + r * 4 * dim);
    }
  }
}

// first [batch, C] and, of pairs, second [batch, C] → logits [batch, classes], at most `tile_rows`
// rows at a time on the calling thread.
void run_sequence_head(const SequenceWeights& weights, const SequenceWorkspace& workspace,
                       int64_t tile_rows, const float* first, const float* second, int64_t batch,
                       float* logits) {
  const bool pairs = second != nullptr;
  const PackedLinear& last = pairs ? weights.pair_fc2 : weights.head;
  const bool half = last.packing() != Packing::kFloat32;
  const int64_t dim = weights.tokens.size(1), classes = last.outputs();
  void* scratch = workspace.scratch[0].product;
  for (int64_t i = 0; i < batch; i += tile_rows) {
    const int64_t rows = std::min(tile_rows, batch - i);
    const float *a = first + i * dim, *b = pairs ? second + i * dim : nullptr;
    half ? write_features(a, b, rows, dim, static_cast<at::BFloat16*>(workspace.features))
         : write_features(a, b, rows, dim, static_cast<float*>(workspace.features));
    PackedRows x{.rows = rows, .data = workspace.features, .stride = pairs ? 4 * dim : dim};
    if (pairs) {
      const int64_t hidden = weights.pair_fc1.outputs();
      weights.pair_fc1.run(x,
                           {.data = workspace.hidden,
                            .stride = hidden,
                            .dtype = half ? kernels::DType::kBfloat16 : kernels::DType::kFloat32,
                            .activation = kernels::Activation::kGelu},
                           scratch);
      x = {.rows = rows, .data = workspace.hidden, .stride = hidden};
    }
    last.run(x, {.data = logits + i * classes, .stride = classes}, scratch);
  }
  PackedLinear::release();
}

// Rows of a tile at most, and of a group of short sequences. bfloat16 and int8 products are so fast
// that reading the weights once for 200 rows would hold them up.
constexpr int64_t kSequenceTileRows = 208, kTileRowsHalf = 400;
constexpr int64_t kGroupRows = 208, kGroupRowsHalf = 800;
constexpr int64_t kGroupRowsModule = 8192;  // a module works on a whole group
// Tiles for all threads have about so many rows where there are enough; more of them where a
// block's weights do not stay in cache from tile to tile.
constexpr int64_t kEvenRows = 128, kEvenRowsLarge = 256;
constexpr int64_t kCachedBytes = int64_t{3} << 19;
// Longer groups are spread over the threads, so that memory does not grow with their number.
constexpr int64_t kCarriedTokens = 8192;

const SequenceClassifier& supported(const SequenceClassifier& model) {
  if (SequenceEngine::supports(model)) return model;
  fail_usage("The engine runs classifiers of sequences with float32 weights on the CPU; model '",
             model.config().name, "' has others.");
}

// Whether check_sequence_input() would let it pass; allocates nothing.
bool readable(const SequenceConfig& config, const Tensor& ids, const Tensor& lengths) {
  const int64_t batch = ids.size(0), tokens = ids.size(1);
  const auto* length = lengths.defined() ? lengths.const_data_ptr<int64_t>() : nullptr;
  for (int64_t i = 0; i < batch; ++i) {
    const int64_t own = length != nullptr ? length[i] : tokens;
    if (own < 1 || own > tokens) return false;
    if (config.positions == "learned" && own > config.max_length) return false;
    const int64_t* row = ids.const_data_ptr<int64_t>() + i * tokens;
    bool good = true;
    for (int64_t t = 0; t < own; ++t) good &= row[t] >= 1 && row[t] < config.vocab;
    if (!good) return false;
  }
  return true;
}

}  // namespace

class SequenceEngine::Run {
 public:
  Run(const SequenceClassifier& model, Packing products)
      : config_(model.config()), weights_(pack_sequence_weights(model, products)) {
    for (const auto& block : weights_.blocks) {
      modules_ = modules_ || block.mixer == EngineMixer::kModule;
      const int64_t bytes =
          block.in.bytes() + block.out.bytes() + block.fc1.bytes() + block.fc2.bytes();
      if (bytes > kCachedBytes) least_ = kEvenRowsLarge;
    }
    const bool half = products != Packing::kFloat32;
    most_ = half ? kTileRowsHalf : kSequenceTileRows;
    least_ = std::min(least_, most_);
    group_rows_ = modules_ ? kGroupRowsModule : half ? kGroupRowsHalf : kGroupRows;
  }

  const SequenceConfig& config() const { return config_; }

  Tensor forward(const SequenceInput& first, const SequenceInput* second) {
    Tensor logits = torch::empty(
        {first.ids.defined() && first.ids.dim() > 0 ? first.ids.size(0) : 0, config_.classes});
    const c10::InferenceMode no_grad;
    const DeviceAutocast own_precision{Autocast::kOff};
    encode(first, first_);
    if (second != nullptr) encode(*second, second_);
    if (second != nullptr && first.ids.size(0) != second->ids.size(0)) {
      fail_data("A batch of pairs has ", first.ids.size(0), " first and ", second->ids.size(0),
                " second sequences.");
    }
    if (logits.size(0) == 0) return logits;
    run_sequence_head(weights_, *workspace_, most_, first_.data(),
                      second != nullptr ? second_.data() : nullptr, logits.size(0),
                      logits.mutable_data_ptr<float>());
    return logits;
  }

 private:
  // The vectors [B, C] of a batch of sequences.
  void encode(const SequenceInput& input, std::vector<float>& vectors) {
    if (!input.ids.defined() || input.ids.dim() != 2 || input.ids.scalar_type() != torch::kLong ||
        (input.lengths.defined() && (input.lengths.scalar_type() != torch::kLong ||
                                     input.lengths.sizes() != input.ids.sizes().slice(0, 1)))) {
      check_sequence_input(config_, input);
    }
    const int64_t batch = input.ids.size(0);
    if (batch == 0) return;
    const Tensor ids = input.ids.cpu().contiguous();
    const Tensor lengths =
        input.lengths.defined() ? input.lengths.cpu().contiguous() : input.lengths;
    if (!readable(config_, ids, lengths)) check_sequence_input(config_, input);
    plan_.cut({.ids = ids.const_data_ptr<int64_t>(),
               .stride = ids.size(1),
               .batch = batch,
               .tokens = ids.size(1),
               .lengths = lengths.defined() ? lengths.const_data_ptr<int64_t>() : nullptr},
              weights_.class_token.defined() ? 1 : 0, group_rows_);
    vectors.resize(std::max(vectors.size(), static_cast<size_t>(batch * config_.dim)));
    prepare();
    run_groups(vectors.data());
  }

  bool may_be_carried(const SequenceGroup& group) const {
    return !modules_ && group.rows <= kCarriedTokens;
  }

  // Orders the groups: those to be carried first. Makes room for all.
  void prepare() {
    const int64_t threads = at::get_num_threads();
    auto& groups = plan_.groups;
    const auto short_end = std::partition(
        groups.begin(), groups.end(), [this](const auto& group) { return may_be_carried(group); });
    carried_ = threads == 1 ? 0 : (short_end - groups.begin()) / threads * threads;
    SequenceSizes sizes{.threads = threads};
    for (size_t i = 0; i < groups.size(); ++i) {
      int64_t& rows = static_cast<int64_t>(i) < carried_ ? sizes.carried : sizes.spread;
      rows = std::max(rows, groups[i].rows);
      sizes.sequences = std::max(sizes.sequences, groups[i].count);
      sizes.longest = std::max(sizes.longest, groups[i].longest);
    }
    if (workspace_ == nullptr || !workspace_->sizes.hold(sizes)) {
      if (workspace_ != nullptr) sizes = workspace_->sizes.joined(sizes);
      workspace_.reset();
      workspace_ = std::make_unique<SequenceWorkspace>(config_, weights_, sizes, most_);
    }
    if (config_.positions == "sinusoidal" &&
        (!waves_.defined() || waves_.size(0) < sizes.longest)) {
      waves_ = sinusoidal_positions(sizes.longest, config_.dim);
    }
  }

  void run_groups(float* vectors) {
    const SequencePass::Setting setting{config_, weights_,
                                        waves_.defined() ? data(waves_) : data(weights_.positions),
                                        least_, most_};
    const auto run = [&](int64_t index, size_t region, ParallelFor parallel, int64_t threads) {
      const SequenceGroup& group = plan_.groups[static_cast<size_t>(index)];
      SequencePass(setting, plan_, *workspace_, group, region).run(parallel, threads, vectors);
    };
    const int64_t threads = at::get_num_threads();
    if (carried_ > 0) {
      std::atomic<int64_t> next{0};
      at::parallel_for(0, threads, 1, [&](int64_t, int64_t) {
        const auto own = static_cast<size_t>(at::get_thread_num());
        for (int64_t g = next++; g < carried_; g = next++) run(g, own, serial_for, 1);
      });
    }
    for (int64_t g = carried_; g < static_cast<int64_t>(plan_.groups.size()); ++g) {
      run(g, 0, torch_parallel, threads);
    }
  }

  const SequenceConfig config_;
  const SequenceWeights weights_;
  bool modules_ = false;
  int64_t most_ = 0, least_ = kEvenRows, group_rows_ = 0;
  // Of the present call, or kept from call to call.
  SequencePlan plan_;
  int64_t carried_ = 0;  // groups that have a thread each, the first ones
  std::unique_ptr<SequenceWorkspace> workspace_;
  Tensor waves_;  // sinusoidal positions of the longest sequence so far
  std::vector<float> first_, second_;
};

bool SequenceEngine::supports(const SequenceClassifier& model) {
  return packable(model);
}

SequenceEngine::SequenceEngine(const SequenceClassifier& model, Precision precision)
    : precision_(precision), run_(std::make_unique<Run>(supported(model), packing_of(precision))) {}

SequenceEngine::~SequenceEngine() = default;

Tensor SequenceEngine::forward(const SequenceInput& input) {
  const SequenceConfig& config = run_->config();
  if (config.pairs) {
    fail_data("Model '", config.name, "' reads pairs of sequences and was given single ones.");
  }
  return run_->forward(input, nullptr);
}

Tensor SequenceEngine::forward(const SequenceInput& first, const SequenceInput& second) {
  const SequenceConfig& config = run_->config();
  if (!config.pairs) {
    fail_data("Model '", config.name, "' reads single sequences and was given pairs.");
  }
  return run_->forward(first, &second);
}

}  // namespace tost
