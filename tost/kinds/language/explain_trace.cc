#include "tost/kinds/language/explain_trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/text.h"
#include "tost/base/utf8.h"
#include "tost/engine/language_text.h"
#include "tost/explain/layer_sums.h"
#include "tost/explain/measures.h"
#include "tost/nn/causal_means.h"
#include "tost/nn/causal_tssa.h"
#include "tost/nn/module_device.h"

namespace tost {

using torch::Tensor;

namespace {

constexpr int64_t kTracedLogits = int64_t{1} << 24;

// Computes logits for a few tokens at a time.
void predict_tokens(const LanguageModel& model, const Tensor& hidden, const Tensor& ids,
                    TextTrace& trace) {
  const int64_t tokens = ids.size(1);
  const int64_t step = std::max<int64_t>(
      1, kTracedLogits / (model.config().vocab * std::max<int64_t>(1, ids.size(0))));
  std::vector<Tensor> loss{torch::empty({ids.size(0), 0}, torch::kDouble)};
  std::vector<Tensor> likely{torch::empty({ids.size(0), 0}, torch::kBool)};
  std::vector<Tensor> guess{torch::empty({ids.size(0), 0}, torch::kInt64)};
  for (int64_t t = 0; t + 1 < tokens; t += step) {
    const int64_t count = std::min(step, tokens - 1 - t);
    const Tensor logits = on_cpu(model.logits(hidden.narrow(1, t, count))).to(torch::kDouble);
    const Tensor target = ids.narrow(1, t + 1, count);
    loss.push_back(logits.logsumexp(2) - logits.gather(2, target.unsqueeze(2)).squeeze(2));
    guess.push_back(logits.argmax(2));
    likely.push_back(guess.back().eq(target));
  }
  trace.loss = torch::cat(loss, 1);
  trace.likely = torch::cat(likely, 1);
  trace.guess = torch::cat(guess, 1);
}

Tensor norms(const Tensor& x) {
  return x.to(torch::kDouble).norm(2, -1);
}

// Converts [B, T, C] to [B, H, T, P] float64.
Tensor by_head(const Tensor& x, int64_t heads) {
  return x.to(torch::kDouble).view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}

TextLayer layer_of(const BlockTrace& block, const Block& weights, int64_t heads) {
  TextLayer layer;
  if (block.mixer.pi.defined()) {
    layer.pi = block.mixer.pi.to(torch::kDouble);
    layer.entropy = membership_entropy(layer.pi);
  }
  if (block.mixer.gate.defined()) {
    layer.gate = by_head(block.mixer.gate, heads).mean(-1);
  }
  if (block.mixer.group_means.defined()) {
    const auto means = by_head(block.mixer.group_means, heads);
    const auto head_values = by_head(block.mixer.values, heads);
    layer.mean_norm = norms(means);
    layer.mean_cosine =
        (means * head_values).sum(-1) / (layer.mean_norm * norms(head_values)).clamp_min(1e-12);
  }
  const Tensor added = (block.mixer_output * weights.gamma1).to(torch::kDouble);
  layer.effect = norms(added) / norms(block.mixed.to(torch::kDouble) - added).clamp_min(1e-12);
  layer.norm = norms(block.output);
  for (Tensor* x : {&layer.pi, &layer.entropy, &layer.gate, &layer.mean_norm, &layer.mean_cosine,
                    &layer.effect, &layer.norm}) {
    *x = on_cpu(*x);
  }
  return layer;
}

}  // namespace

bool descends_on_bound(const LanguageConfig& config, int64_t index) {
  const std::string mixer = mixer_of_block(config, index);
  const auto& o = config.options;
  return (mixer == "tssa" || mixer == "uniform") && o.conv == 0 && o.means == "none" && !o.gate;
}

Tensor memory_horizon(const TokenMixer& mixer) {
  Tensor log_rates;
  if (const auto* means = dynamic_cast<const CausalMeansMixer*>(&mixer)) {
    log_rates = means->rates->log_rates();
  } else if (const auto* tssa = dynamic_cast<const CausalTssaMixer*>(&mixer)) {
    log_rates = tssa->rates->log_rates();
  }
  if (!log_rates.defined()) return {};
  return -1 / torch::expm1(on_cpu(log_rates.detach()).to(torch::kDouble));
}

TextTrace trace_text(LanguageModel& model, const Tensor& ids, LanguageTrace* wanted) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode mode(model);
  LanguageTrace local_trace;
  LanguageTrace& inside = wanted != nullptr ? *wanted : local_trace;
  const Tensor hidden = model.hidden(ids, nullptr, &inside);  // on the model's device, as `inside`
  TextTrace trace;
  predict_tokens(model, hidden, ids, trace);
  const auto& blocks = model.blocks();
  for (size_t i = 0; i < blocks.size(); ++i) {
    auto layer = layer_of(inside.blocks[i], *blocks[i], model.config().heads);
    layer.mixer = mixer_of_block(model.config(), static_cast<int64_t>(i));
    layer.uniform = layer.mixer == "uniform";
    layer.descends = descends_on_bound(model.config(), static_cast<int64_t>(i));
    trace.layers.push_back(std::move(layer));
  }
  return trace;
}

Tensor token_influence(TokenMixer& mixer, const Tensor& x) {
  const torch::NoGradGuard no_grad;
  const int64_t tokens = x.size(0);
  const Tensor batch = x.unsqueeze(0);
  const Tensor whole = mixer.forward(batch, {})[0].to(torch::kDouble);
  const Tensor size = whole.norm(2, 1);
  Tensor influence = torch::zeros({tokens, tokens}, whole.options());
  MixerState before;  // of the tokens before j
  for (int64_t j = 0; j + 1 < tokens; ++j) {
    MixerState state = before;
    const Tensor without = mixer.forward(batch.narrow(1, j + 1, tokens - j - 1),
                                         {.state = &state, .position = j + 1})[0];
    const Tensor changed =
        (whole.narrow(0, j + 1, tokens - j - 1) - without.to(torch::kDouble)).norm(2, 1);
    const Tensor later = size.narrow(0, j + 1, tokens - j - 1);
    influence[j]
        .narrow(0, j + 1, tokens - j - 1)
        .copy_(torch::where(later == 0, torch::zeros_like(later), changed / later));
    state.clear();
    mixer.forward(batch.narrow(1, j, 1), {.state = &before, .position = j});
  }
  return on_cpu(influence);
}

Tensor influence_by_distance(const Tensor& influence) {
  const int64_t tokens = influence.size(0);
  Tensor means = torch::empty({std::max<int64_t>(0, tokens - 1)}, torch::kDouble);
  for (int64_t d = 1; d < tokens; ++d) means[d - 1] = influence.diagonal(d).mean();
  return means;
}

Tensor influence_of_tokens(const Tensor& influence, int64_t reach) {
  const int64_t tokens = influence.size(0);
  Tensor means = torch::full({tokens}, std::nan(""), torch::kDouble);
  for (int64_t j = 0; j + reach < tokens; ++j) {
    means[j] = influence[j].narrow(0, j + 1, reach).mean();
  }
  return means;
}

int64_t influence_reach(int64_t tokens) {
  return std::clamp<int64_t>(tokens / 2, 1, 32);
}

namespace {

constexpr size_t kReadBytes = size_t{256} << 10;

std::string hex_byte(unsigned char byte) {
  std::array<char, 8> digits{};
  std::snprintf(digits.data(), digits.size(), "%02X", byte);
  return cat("‹", digits.data(), "›");
}

std::string visible_ascii(char c) {
  switch (c) {
    case ' ':
      return "·";
    case '\n':
      return "↵";
    case '\t':
      return "⇥";
    case '\r':
      return "␍";
    default:
      return c < 0x20 || c == 0x7f ? hex_byte(static_cast<unsigned char>(c)) : std::string(1, c);
  }
}

// Whether a character has no width, or reverses the direction of the text after it.
bool invisible(uint32_t c) {
  return (c >= 0x80 && c < 0xA0) || c == 0xAD || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
         (c >= 0xFFF9 && c <= 0xFFFB);
}

std::string code_point_name(uint32_t c) {
  std::array<char, 16> digits{};
  std::snprintf(digits.data(), digits.size(), "%04X", c);
  return cat("‹U+", digits.data(), "›");
}

// Truncates a text at the last beginning of a character within `bytes` bytes.
std::string_view whole_beginning(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  size_t end = bytes;
  while (end > 0 && bytes - end < 4 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return text.substr(0, end);
}

// Reads a few more bytes than are used, so that no character is cut.
constexpr size_t kEnoughBytes = kReadBytes + 4;

int64_t longest(const LanguageInfo& info, int64_t max_tokens) {
  if (max_tokens < 1) {
    fail_usage("A passage of at most ", max_tokens, " tokens is impossible; at least 1 is needed.");
  }
  return info.config.positions == "learned" ? std::min(max_tokens, info.config.block) : max_tokens;
}

void note_cut(const LanguageInfo& info, Passage& passage, int64_t limit, int64_t max_tokens) {
  const bool by_block =
      info.config.positions == "learned" && limit == info.config.block && limit < max_tokens;
  const std::string count =
      limit == 1 ? "first token is" : cat("first ", human_number(limit), " tokens are");
  passage.notes.push_back(cat("The text is longer; its ", count, " shown",
                              by_block ? ", the block that the model has positions for." : "."));
}

void name_tokens(const LanguageInfo& info, Passage& passage) {
  for (const int64_t id : passage.ids) {
    passage.tokens.push_back(visible_token(info.tokenizer.get(), id));
  }
}

}  // namespace

std::string visible_piece(std::string_view bytes, int64_t most) {
  if (bytes.empty()) return "∅";
  std::string shown;
  int64_t count = 0;
  for (size_t at = 0; at < bytes.size(); ++count) {
    if (count == most) return shown + "…";
    const size_t length = utf8_length(bytes, at);
    const uint32_t point = length > 1 ? utf8_code_point(bytes, at, length) : 0;
    if (length == 0) {
      shown += hex_byte(static_cast<unsigned char>(bytes[at]));
    } else if (length == 1) {
      shown += visible_ascii(bytes[at]);
    } else {
      shown += invisible(point) ? code_point_name(point) : std::string(bytes.substr(at, length));
    }
    at += std::max<size_t>(1, length);
  }
  return shown;
}

std::string visible_token(const Tokenizer* tokenizer, int64_t id) {
  if (tokenizer == nullptr || id < 0 || id >= tokenizer->vocab_size()) return cat("#", id);
  return visible_piece(tokenizer->piece(static_cast<int32_t>(id)));
}

Passage passage_of_text(const LanguageInfo& info, std::string_view text, const std::string& source,
                        int64_t max_tokens, bool more) {
  const int64_t limit = longest(info, max_tokens);
  if (text.empty()) fail_usage(source, " is empty; a passage of at least one token is needed.");
  const Tokenizer& tokenizer = needed_tokenizer(info, cat(source, " cannot be read"));
  const std::string_view beginning = whole_beginning(text, kReadBytes);
  more = more || beginning.size() < text.size();
  Passage passage;
  passage.source = source;
  const auto ids = tokenizer.encode(beginning, cat(source, " cannot be read"));
  passage.ids.assign(ids.begin(), ids.end());
  if (passage.ids.empty()) fail_usage(source, " holds no token; at least one is needed.");
  if (static_cast<int64_t>(passage.ids.size()) > limit || more) {
    passage.ids.resize(std::min(passage.ids.size(), static_cast<size_t>(limit)));
    note_cut(info, passage, static_cast<int64_t>(passage.ids.size()), max_tokens);
  }
  name_tokens(info, passage);
  return passage;
}

Passage passage_of_file(const LanguageInfo& info, const std::string& path, int64_t max_tokens) {
  if (std::filesystem::path(path).extension() == ".bin") {
    const auto text = load_language_text({.path = path, .split = "whole"}, info);
    return passage_of_tokens(info, *text.tokens, cat("'", path, "'"), max_tokens);
  }
  return passage_of_text(info, read_beginning(path, kEnoughBytes), cat("'", path, "'"), max_tokens);
}

Passage passage_of_stream(const LanguageInfo& info, std::istream& in, const std::string& source,
                          int64_t max_tokens) {
  std::string text(kEnoughBytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  return passage_of_text(info, text, source, max_tokens);
}

Passage passage_of_tokens(const LanguageInfo& info, const TokenSource& tokens,
                          const std::string& source, int64_t max_tokens) {
  const int64_t limit = longest(info, max_tokens);
  if (tokens.size() == 0) fail_usage(source, " holds no token; at least one is needed.");
  Passage passage;
  passage.source = source;
  passage.ids.resize(static_cast<size_t>(std::min(tokens.size(), limit)));
  tokens.copy(0, static_cast<int64_t>(passage.ids.size()), passage.ids.data());
  for (const int64_t id : passage.ids) {
    if (id >= 0 && id < info.config.vocab) continue;
    fail_data("Token id ", id, " of ", source, " is outside the model's vocabulary of ",
              info.config.vocab, "; was the text cut by another tokenizer?");
  }
  if (tokens.size() > limit) note_cut(info, passage, limit, max_tokens);
  name_tokens(info, passage);
  return passage;
}

}  // namespace tost
