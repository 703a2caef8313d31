#include "tost/kinds/language/model.h"

#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/engine/language_weights.h"
#include "tost/nn/cross_entropy.h"
#include "tost/nn/module_device.h"
#include "tost/nn/state_dict.h"
#include "tost/nn/token_sums_scope.h"
#include "tost/ops/arrays.h"
#include "tost/ops/device.h"

namespace tost {

using torch::Tensor;

namespace {

constexpr int64_t kLogitsAtOnce = int64_t{1} << 25;  // 128 MiB of float32

std::shared_ptr<TokenMixer> new_mixer(const LanguageConfig& c, int64_t index) {
  const auto& name = mixer_of_block(c, index);
  const auto config = mixer_config(c);
  return make_causal_mixer(name, c.hybrid_every > 0 ? supported_options(name, config) : config);
}

}  // namespace

void check_ids(const LanguageConfig& config, const Tensor& ids, int64_t position) {
  if (ids.dim() != 2 || ids.scalar_type() != torch::kLong) {
    fail_data("Token ids must be int64 of shape [batch, tokens], found ", ids.scalar_type(), " ",
              ids.sizes(), ".");
  }
  if (ids.numel() == 0) return;
  if (ids.is_cpu()) {
    const Tensor flat = ids.contiguous();
    check_ids(config, flat.const_data_ptr<int64_t>(), flat.numel());
  }
  check_position(config, position, ids.size(1));
}

int64_t context_bytes(LanguageModel& model, const Tensor& ids) {
  if (model.config().auto_encoder) return 4 * model.config().dim;
  LanguageState state;
  model.extend(ids, state);
  return state_bytes(state);
}

TokenDecoder::TokenDecoder(const LanguageConfig& c) {
  const auto norm = [&](const char* key) {
    return register_module(key, std::make_shared<LayerNorm>(c.dim, 1e-5, c.bias));
  };
  const auto linear = [&](const char* key) {
    return register_module(key, std::make_shared<Linear>(c.dim, c.dim, c.bias));
  };
  norm1_ = norm("ln_1");
  fc1_ = linear("fc1");
  norm2_ = norm("ln_2");
  fc2_ = linear("fc2");
}

Tensor TokenDecoder::forward(const Tensor& x) {
  const int64_t tokens = x.size(1);
  if (tokens == 0) return x;
  const Tensor places = x.narrow(1, tokens - 1, 1) + positions_.rows(tokens, x);
  const Tensor inner = torch::gelu(fc1_->forward(norm1_->forward(places)));
  return torch::gelu(fc2_->forward(norm2_->forward(inner)));
}

LanguageModel::LanguageModel(const LanguageConfig& c, WeightInit init) : config_(c) {
  validate(c);
  const BlockConfig block{.dim = c.dim,
                          .mlp_hidden = hidden_width(c.dim, c.mlp_ratio),
                          .layer_scale = c.layer_scale,
                          .dropout = c.dropout,
                          .norm_eps = 1e-5,
                          .bias = c.bias,
                          .tanh_gelu = c.activation == "gelu-tanh",
                          .language_keys = true};
  transformer_ = register_module("transformer", std::make_shared<torch::nn::Module>("transformer"));
  wte_ = transformer_->register_module("wte", std::make_shared<Embedding>(c.vocab, c.dim));
  wte_->in_products = true;
  if (c.positions == "learned") {
    wpe_ = transformer_->register_module("wpe", std::make_shared<Embedding>(c.block, c.dim));
  }
  auto list = transformer_->register_module("h", std::make_shared<torch::nn::ModuleListImpl>());
  for (int64_t i = 0; i < c.depth; ++i) {
    blocks_.push_back(std::make_shared<Block>(block, new_mixer(c, i)));
    list->push_back(blocks_.back());
  }
  if (c.auto_encoder) {
    decoder_ = transformer_->register_module("decoder", std::make_shared<TokenDecoder>(c));
  }
  ln_f_ = transformer_->register_module("ln_f", std::make_shared<LayerNorm>(c.dim, 1e-5, c.bias));
  if (init == WeightInit::kOfficial) draw_weights();
}

// Draws weights with deviation 0.02, or 0.02 / sqrt(2 depth) in maps to the residual stream.
void LanguageModel::draw_weights() {
  torch::NoGradGuard no_grad;
  init_linears(*this);
  for (const auto& item : named_parameters()) {
    if (ends_with(item.key(), "c_proj.weight")) {
      item.value().normal_(0, 0.02 / std::sqrt(2.0 * double(config_.depth)));
    }
  }
  wte_->weight.normal_(0, 0.02);
  if (wpe_ != nullptr) wpe_->weight.normal_(0, 0.02);
}

bool LanguageModel::uses_reader() const {
  return reader_ != nullptr && !is_training() && !torch::GradMode::is_enabled();
}

Tensor LanguageModel::hidden(const Tensor& input, LanguageState* state, LanguageTrace* trace) {
  if (trace == nullptr && uses_reader()) return reader_->hidden(input, state);
  if (state != nullptr) check_predicts(config_, "reading on from a state");
  const int64_t position = state != nullptr ? state->position : 0;
  const int64_t first =
      state != nullptr || input.dim() != 2 ? position : first_position(input.size(1));
  check_ids(config_, input, first);
  const Tensor ids = to_device(input, wte_->weight.device());
  // Uses a sparse gradient on the CPU, which is added to the head's gradient in place. Uses a dense
  // gradient on a GPU, where a sparse one would wait for a count of rows.
  auto x = torch::embedding(wte_->weight, ids, /*padding_idx=*/-1, /*scale_grad_by_freq=*/false,
                            /*sparse=*/ids.is_cpu());
  if (wpe_ != nullptr) x = x + wpe_->weight.narrow(0, first, ids.size(1));
  if (is_training() && config_.dropout > 0) x = torch::dropout(x, config_.dropout, true);
  if (state != nullptr) state->blocks.resize(blocks_.size());
  if (trace != nullptr) trace->blocks.assign(blocks_.size(), {});
  for (size_t i = 0; i < blocks_.size(); ++i) {
    BlockTrace* traced = trace != nullptr ? &trace->blocks[i] : nullptr;
    MixerState tensors;
    if (state != nullptr) tensors = take_tensors(state->blocks[i]);
    for (auto& [name, tensor] : tensors)
      tensor = tensor.to(x.device());  // a session was on the CPU
    x = blocks_[i]->forward(x, traced,
                            {.state = state != nullptr ? &tensors : nullptr, .position = position});
    if (state != nullptr) state->blocks[i] = arrays_of(std::move(tensors));
  }
  if (state != nullptr) state->position += ids.size(1);
  if (decoder_ != nullptr) x = decoder_->forward(x);
  return ln_f_->forward(x);
}

Tensor LanguageModel::logits(const Tensor& hidden) const {
  if (uses_reader()) return reader_->logits(hidden);
  return torch::linear(hidden, product_weight(wte_->weight, wte_->copy));
}

Tensor LanguageModel::forward(const Tensor& ids) {
  return logits(hidden(ids));
}

// Reads targets on the CPU only, because a read from a GPU would wait.
Tensor LanguageModel::target_rows(const Tensor& targets) {
  if (!targets.is_cpu()) return {};
  const auto rows = targets.flatten().ne(-1).nonzero().squeeze(1);
  return rows.size(0) > 0 && rows.size(0) <= targets.numel() / 2 ? rows : Tensor();
}

Tensor LanguageModel::loss(const Tensor& ids, const Tensor& targets,
                           const Tensor& rows_of_targets) {
  auto rows = hidden(ids).flatten(0, 1), wanted = targets.flatten();
  // Computes the head only for the rows with targets, if there are few such rows.
  const auto places = rows_of_targets.defined() ? rows_of_targets : target_rows(wanted);
  if (places.defined()) {
    rows = rows.index_select(0, to_device(places, rows.device()));
    wanted = wanted.index_select(0, to_device(places, wanted.device()));
  }
  if (wanted.is_cpu() && !rows.is_cpu()) check_targets(wanted, config_.vocab);
  wanted = to_device(wanted, rows.device());
  return head_cross_entropy(rows, product_weight(wte_->weight, wte_->copy), wanted);
}

Tensor LanguageModel::extend(const Tensor& ids, LanguageState& state) {
  const torch::NoGradGuard no_grad;
  if (uses_reader()) return reader_->extend(ids, state);
  if (ids.dim() == 2 && ids.size(1) == 0) fail_data("There are no tokens to read.");
  check_ids(config_, ids, state.position);  // before anything is read: a state never ends half-way
  Tensor last;
  for (int64_t t = 0; t < ids.size(1); t += kPieceTokens) {
    last = hidden(ids.narrow(1, t, std::min(kPieceTokens, ids.size(1) - t)), &state);
  }
  return logits(last.select(1, last.size(1) - 1));
}

Array LanguageModel::extend(const int64_t* ids, int64_t batch, int64_t tokens,
                            LanguageState& state) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode mode(*this);
  const Tensor read = torch::from_blob(const_cast<int64_t*>(ids), {batch, tokens}, torch::kLong);
  return array_of(extend(read, state).to(torch::kCPU, torch::kFloat).contiguous());
}

// Computes logits for a few thousand tokens at a time.
TokenScores LanguageModel::score(const int64_t* ids, const int64_t* targets, int64_t batch,
                                 int64_t tokens, LanguageState* state) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode mode(*this);
  const auto view = [&](const int64_t* of) {
    return torch::from_blob(const_cast<int64_t*>(of), {batch * tokens}, torch::kLong);
  };
  const Tensor wanted = view(targets), places = wanted.ge(0).nonzero().squeeze(1);
  const Tensor rows = hidden(view(ids).view({batch, tokens}), state).flatten(0, 1);
  const int64_t count = places.size(0), step = std::max<int64_t>(1, kLogitsAtOnce / config_.vocab);
  TokenScores scores{std::vector<float>(size_t(count)), std::vector<char>(size_t(count))};
  for (int64_t begin = 0; begin < count; begin += step) {
    const Tensor piece = places.narrow(0, begin, std::min(step, count - begin));
    const Tensor target = to_device(wanted.index_select(0, piece), rows.device());
    const Tensor chosen = to_device(piece, rows.device());
    const Tensor found = logits(rows.index_select(0, chosen)).to(torch::kFloat);
    const Tensor loss = torch::cross_entropy_loss(found, target, {}, at::Reduction::None).cpu();
    const Tensor likely = found.argmax(1).eq(target).cpu();
    std::copy_n(loss.const_data_ptr<float>(), loss.numel(), scores.loss.data() + begin);
    std::copy_n(likely.const_data_ptr<bool>(), loss.numel(), scores.likely.data() + begin);
  }
  return scores;
}

LanguageState LanguageModel::on_cpu(LanguageState state) const {
  for (Arrays& block : state.blocks) {
    for (auto& [name, array] : block) array = array_of(tensor_of(array).cpu());
  }
  return state;
}

void LanguageModel::each_weight(function_ref<void(const Array&)> visit) const {
  for (const auto& [name, tensor] : state_dict(*this)) {
    visit(array_of(tensor.to(torch::kCPU).contiguous()));
  }
}

std::shared_ptr<LanguageModel> make_language_model(const LanguageConfig& config, WeightInit init) {
  return std::make_shared<LanguageModel>(config, init);
}

CausalMixerConfig mixer_config(const LanguageConfig& c) {
  return {.dim = c.dim,
          .heads = c.heads,
          .block = c.block,
          .bias = c.bias,
          .dropout = c.dropout,
          .options = c.options};
}

void validate(const LanguageConfig& c) {
  check_language_config(c);
  const CausalMixerConfig mixer = mixer_config(c);
  if (c.hybrid_every == 0) return check_causal_mixer(c.mixer, mixer);
  check_hybrid(c.mixer, c.hybrid_mixer, mixer);
}

}  // namespace tost
