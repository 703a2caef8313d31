#include "tost/kinds/sequence/classifier.h"

#include "tost/base/error.h"
#include "tost/nn/token_sums_scope.h"
#include "tost/ops/device.h"
#include "tost/ops/plain.h"

namespace tost {

using torch::Tensor;

PairHead::PairHead(const SequenceConfig& c) {
  fc1 = register_module("fc1", std::make_shared<Linear>(4 * c.dim, mlp_hidden(c), true));
  fc2 = register_module("fc2", std::make_shared<Linear>(mlp_hidden(c), c.classes, true));
}

Tensor PairHead::forward(const Tensor& a, const Tensor& b) const {
  return fc2->forward(torch::gelu(fc1->forward(torch::cat({a, b, a * b, a - b}, 1))));
}

SequenceClassifier::SequenceClassifier(const SequenceConfig& c, WeightInit init) : config_(c) {
  validate(c);
  const MixerConfig mixer{.dim = c.dim, .heads = c.heads, .qkv_bias = c.qkv_bias};
  const BlockConfig block{.dim = c.dim,
                          .mlp = c.mlp,
                          .mlp_hidden = mlp_hidden(c),
                          .layer_scale = c.layer_scale,
                          .dropout = c.dropout};
  embed_ = register_module("embed", std::make_shared<SequenceEmbedding>(c));
  auto list = register_module("blocks", std::make_shared<torch::nn::ModuleListImpl>());
  for (int64_t i = 0; i < c.depth; ++i) {
    blocks_.push_back(std::make_shared<Block>(block, make_mixer(mixer_of_block(c, i), mixer)));
    list->push_back(blocks_.back());
  }
  norm_ = register_module("norm", std::make_shared<LayerNorm>(c.dim));
  if (c.pairs) {
    pair_head_ = register_module("head", std::make_shared<PairHead>(c));
  } else {
    head_ = register_module("head", std::make_shared<Linear>(c.dim, c.classes, true));
  }
  if (init == WeightInit::kNone) return;
  init_linears(*this);
  embed_->draw_weights();
  for (const auto& each : blocks_) each->attn->draw_weights();
}

namespace {

void check_ids(const SequenceConfig& config, const Tensor& ids, const Tensor& lengths) {
  const auto valid = valid_tokens(lengths, ids.size(1));
  const auto wrong = valid.logical_and((ids < 1).logical_or(ids >= config.vocab));
  if (!wrong.any().item<bool>()) return;
  const auto place = wrong.nonzero()[0];
  const int64_t row = place[0].item<int64_t>(), column = place[1].item<int64_t>();
  const int64_t id = ids[row][column].item<int64_t>();
  if (id == 0) {
    fail_data("Token ", column + 1, " of sequence ", row + 1,
              " of the batch has id 0, which is padding; give the lengths of the sequences.");
  }
  fail_data("Token id ", id, " of sequence ", row + 1,
            " of the batch is outside the model's vocabulary of ", config.vocab,
            "; was the data coded for another model?");
}

}  // namespace

void check_sequence_input(const SequenceConfig& config, const SequenceInput& input) {
  const auto& ids = input.ids;
  if (!ids.defined() || ids.dim() != 2 || ids.scalar_type() != torch::kLong) {
    fail_data("Token ids must be int64 of shape [batch, tokens]",
              ids.defined() ? cat(", found ", ids.scalar_type(), " ", ids.sizes()) : "", ".");
  }
  if (ids.size(0) == 0) return;
  auto lengths = input.lengths;
  if (!lengths.defined()) lengths = torch::full({ids.size(0)}, ids.size(1), ids.options());
  if (lengths.scalar_type() != torch::kLong || lengths.sizes() != ids.sizes().slice(0, 1)) {
    fail_data("Lengths must be int64 of shape [", ids.size(0), "], found ", lengths.scalar_type(),
              " ", lengths.sizes(), ".");
  }
  if (!lengths.is_cpu()) return;  // looking would wait for a GPU
  const int64_t shortest = lengths.min().item<int64_t>(), longest = lengths.max().item<int64_t>();
  if (shortest < 1) {
    fail_data("Sequence ", lengths.argmin().item<int64_t>() + 1,
              " of the batch has no tokens; leave empty sequences out.");
  }
  if (longest > ids.size(1)) {
    fail_data("Sequence ", lengths.argmax().item<int64_t>() + 1, " of the batch is said to have ",
              longest, " tokens where only ", ids.size(1), " are given.");
  }
  if (config.positions == "learned" && longest > config.max_length) {
    fail_data("A sequence of ", longest, " tokens is longer than the ", config.max_length,
              " learned positions of model '", config.name, "'; cut it to ", config.max_length,
              " tokens, or train a model with a larger max_length or positions 'sinusoidal'.");
  }
  check_ids(config, ids, lengths);
}

// Pools the tokens after the blocks to one vector for each sequence [B, C].
Tensor SequenceClassifier::pool(const Tensor& x, const Tensor& lengths) const {
  const TokenSums* sums = TokenSumsScope::current();
  if (config_.pool == "class" && sums == nullptr) return norm_->forward(x.select(1, 0));
  if (config_.pool == "class") {  // it is in the first place; elsewhere a sum of no tokens
    return norm_->forward(sums->total(x.narrow(1, 0, sums->place == 0 ? 1 : 0).sum(1)));
  }
  const auto normed = norm_->forward(x);
  if (!lengths.defined() && sums == nullptr) return normed.mean(1);
  const auto count =
      (lengths.defined() ? lengths : torch::full({x.size(0)}, x.size(1))).unsqueeze(1);
  const auto padding = valid_tokens(count.squeeze(1), x.size(1)).logical_not().unsqueeze(-1);
  const auto sum = normed.masked_fill(padding, 0).sum(1);
  if (sums == nullptr) return sum / count;
  const auto all = sums->total(torch::cat({sum, count.to(sum.scalar_type())}, 1));
  return all.narrow(1, 0, sum.size(1)) / all.narrow(1, sum.size(1), 1);
}

Tensor SequenceClassifier::encode(const SequenceInput& input, std::vector<BlockTrace>* trace) {
  // Allows a part of a divided sequence that is all padding; the whole sequence was checked before.
  const bool split = TokenSumsScope::current() != nullptr;
  if (!split) check_sequence_input(config_, input);
  auto ids = input.ids;
  auto lengths = input.lengths;
  if (lengths.defined() && (split || !lengths.is_cpu())) {
    ids = ids.masked_fill(valid_tokens(lengths, ids.size(1)).logical_not(), 0);
  } else if (lengths.defined() && ids.size(0) > 0) {
    ids = ids.narrow(1, 0, lengths.max().item<int64_t>());
    if (lengths.min().item<int64_t>() == ids.size(1)) {
      lengths.reset();  // nothing is padded
    } else {
      ids = ids.masked_fill(valid_tokens(lengths, ids.size(1)).logical_not(), 0);
    }
  }
  const auto device = norm_->weight.device();
  lengths = to_device(lengths, device);
  auto x = embed_->forward(to_device(ids, device));
  if (lengths.defined()) lengths = lengths + (x.size(1) - ids.size(1));
  if (is_training() && config_.dropout > 0) x = torch::dropout(x, config_.dropout, true);
  if (trace != nullptr) trace->assign(blocks_.size(), {});
  for (size_t i = 0; i < blocks_.size(); ++i) {
    x = blocks_[i]->forward(x, trace != nullptr ? &(*trace)[i] : nullptr, {.lengths = lengths});
  }
  return pool(x, lengths);
}

Tensor SequenceClassifier::forward(const SequenceInput& input) {
  if (config_.pairs) {
    fail_data("Model '", config_.name, "' reads pairs of sequences and was given single ones.");
  }
  return head_->forward(encode(input));
}

Tensor SequenceClassifier::forward(const SequenceInput& first, const SequenceInput& second) {
  if (!config_.pairs) {
    fail_data("Model '", config_.name, "' reads single sequences and was given pairs.");
  }
  const auto a = encode(first), b = encode(second);
  if (a.size(0) != b.size(0)) {
    fail_data("A batch of pairs has ", a.size(0), " first and ", b.size(0), " second sequences.");
  }
  return pair_head_->forward(a, b);
}

std::shared_ptr<SequenceClassifier> make_sequence_classifier(const SequenceConfig& config,
                                                             WeightInit init) {
  return std::make_shared<SequenceClassifier>(config, init);
}

SequenceEmbedding::SequenceEmbedding(const SequenceConfig& c)
    : sinusoidal_(c.positions == "sinusoidal") {
  tokens = register_module("tokens", std::make_shared<Embedding>(c.vocab, c.dim));
  if (c.positions == "learned") {
    positions = register_module("positions", std::make_shared<Embedding>(position_count(c), c.dim));
  }
  if (c.pool == "class") {
    cls_token = register_parameter("cls_token", torch::zeros({1, 1, c.dim}));
  }
}

void SequenceEmbedding::draw_weights() {
  const torch::NoGradGuard no_grad;
  tokens->weight.normal_();
  if (positions != nullptr) positions->weight.normal_(0, 0.02);
}

Tensor SequenceEmbedding::forward(const Tensor& ids) {
  auto x = torch::embedding(tokens->weight, ids, /*padding_idx=*/0);
  int64_t first = first_position(ids.size(1));
  if (cls_token.defined() && first == 0) {
    x = torch::cat({cls_token.expand({ids.size(0), -1, -1}), x}, 1);
  } else if (cls_token.defined()) {
    ++first;
  }
  if (positions != nullptr) x = x + positions->weight.narrow(0, first, x.size(1));
  if (sinusoidal_) {
    x = x + waves_.rows(first + x.size(1), tokens->weight).narrow(0, first, x.size(1));
  }
  return x;
}

}  // namespace tost
