#include "tost/kinds/language/scores.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/io/parse_json.h"
#include "tost/nn/module_device.h"
#include "tost/nn/precision.h"

namespace tost {

using torch::Tensor;

namespace {

constexpr int64_t kLogitsAtOnce = int64_t{1} << 25;  // 128 MiB of float32

// A window of a text. All tokens of a window except the last, which the model does not read, must
// fit the context.
struct Window {
  const int64_t* begin;
  int64_t length;
};

Window window_of(const ScoredText& text, int64_t context) {
  const auto size = static_cast<int64_t>(text.ids.size());
  if (text.targets < 1 || text.targets >= size) {
    fail_data("A text of ", size, " tokens cannot have its last ", text.targets, " predicted.");
  }
  const int64_t length = std::min(size - 1, context);
  if (length < text.targets) {
    fail_data("A text has ", text.targets, " tokens to be predicted and the model a context of ",
              context, ".");
  }
  return {text.ids.data() + (size - 1 - length), length};
}

}  // namespace

TokenScores score_targets(const LanguageModel& model, const Tensor& hidden, const Tensor& targets) {
  const Tensor wanted = targets.to(torch::kCPU).flatten();
  const Tensor places = wanted.ge(0).nonzero().squeeze(1);
  const Tensor rows = hidden.flatten(0, 1);
  const int64_t count = places.size(0);
  const int64_t step = std::max<int64_t>(1, kLogitsAtOnce / model.config().vocab);
  TokenScores scores{torch::empty({count}), torch::empty({count}, torch::kBool)};
  for (int64_t begin = 0; begin < count; begin += step) {
    const int64_t length = std::min(step, count - begin);
    const Tensor piece_places = places.narrow(0, begin, length);
    const Tensor target = to_device(wanted.index_select(0, piece_places), rows.device());
    const Tensor chosen = to_device(piece_places, rows.device());
    const Tensor logits = model.logits(rows.index_select(0, chosen)).to(torch::kFloat);
    const Tensor target_logit = logits.gather(1, target.unsqueeze(1)).squeeze(1);
    scores.loss.narrow(0, begin, length).copy_(logits.logsumexp(1) - target_logit);
    scores.likely.narrow(0, begin, length).copy_(logits.argmax(1).eq(target));
  }
  return scores;
}

std::vector<TokenScores> score_texts(LanguageModel& model, const std::vector<ScoredText>& texts) {
  if (texts.empty()) return {};
  std::vector<Window> windows;
  int64_t longest = 0;
  for (const ScoredText& text : texts) {
    windows.push_back(window_of(text, model.max_context()));
    longest = std::max(longest, windows.back().length);
  }
  const auto rows = static_cast<int64_t>(texts.size());
  const Tensor ids = torch::zeros({rows, longest}, torch::kInt64);
  const Tensor targets = torch::full({rows, longest}, -1, torch::kInt64);
  for (int64_t row = 0; row < rows; ++row) {
    const auto [begin, length] = windows[static_cast<size_t>(row)];
    const int64_t scored = texts[static_cast<size_t>(row)].targets;
    std::copy_n(begin, length, ids[row].data_ptr<int64_t>());
    std::copy_n(begin + length + 1 - scored, scored,
                targets[row].data_ptr<int64_t>() + length - scored);
  }
  const TokenScores scores = score_targets(model, model.hidden(ids), targets);
  std::vector<TokenScores> result;
  int64_t at = 0;
  for (const ScoredText& text : texts) {
    result.push_back(
        {scores.loss.narrow(0, at, text.targets), scores.likely.narrow(0, at, text.targets)});
    at += text.targets;
  }
  return result;
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kDefaultTokens = 8192;  // of the windows read together
constexpr int64_t kOfficialBatch = 16;

struct Sum {
  double loss = 0;
  int64_t tokens = 0;

  void add(const Tensor& losses) {
    loss += losses.to(torch::kDouble).sum().item<double>();
    tokens += losses.numel();
  }
};

bool stopped(const LanguageEvalOptions& options) {
  return options.stop != nullptr && options.stop->load();
}

// Replaces zeros in the settings by their defaults.
LanguageLossOptions resolve(const LanguageModel& model, LanguageLossOptions o) {
  const std::vector<std::string> protocols = {"usual", "official"};
  if (o.protocol != protocols[0] && o.protocol != protocols[1]) {
    fail_usage("Unknown protocol '", o.protocol, "'; use usual or official.",
               did_you_mean(o.protocol, protocols));
  }
  const bool whole = o.context == LanguageLossOptions::kWholeText;
  if (whole && (o.protocol == "official" || o.stride != 0)) {
    fail_usage("A whole text is read by the usual protocol without a stride.");
  }
  if (whole && model.max_context() <= model.config().block) {
    fail_usage("The model has learned positions for ", model.config().block,
               " tokens; a whole text needs a model with positions 'none'.");
  }
  if (o.context == 0) o.context = model.config().block;
  if (!whole && (o.context < 1 || o.context > model.max_context())) {
    fail_usage("A context of ", o.context, " tokens is impossible; this model takes 1 to ",
               model.max_context(), ".");
  }
  if (o.stride == 0) o.stride = std::max<int64_t>(1, o.context / 2);
  if (!whole && (o.stride < 1 || o.stride > o.context)) {
    fail_usage("A stride of ", o.stride, " tokens is impossible in a context of ", o.context, ".");
  }
  if (o.batch == 0) {
    o.batch = o.protocol == "official" ? kOfficialBatch
                                       : std::max<int64_t>(1, kDefaultTokens / std::abs(o.context));
  }
  if (o.batch < 1 || o.batches < 1) {
    fail_usage("There must be at least one window a batch and one batch, not ", o.batch, " and ",
               o.batches, ".");
  }
  return o;
}

// Reads `count` windows of `length` predictions, one every `stride` tokens from `begin`. Scores the
// last `fresh` predictions of each window, and all predictions of the text's first window.
Tensor read_windows(LanguageModel& model, const TokenSource& source, int64_t begin, int64_t count,
                    int64_t length, int64_t stride, int64_t fresh) {
  const Tensor tokens = torch::empty({count, length + 1}, torch::kInt64);
  for (int64_t row = 0; row < count; ++row) {
    source.copy(begin + row * stride, length + 1, tokens[row].data_ptr<int64_t>());
  }
  const Tensor targets = tokens.slice(1, 1).clone();
  if (fresh < length) targets.slice(0, begin == 0 ? 1 : 0).slice(1, 0, length - fresh).fill_(-1);
  return score_targets(model, model.hidden(tokens.slice(1, 0, length)), targets).loss;
}

bool usual(LanguageModel& model, const TokenSource& source, const LanguageLossOptions& o,
           Sum& sum) {
  const int64_t predictions = source.size() - 1;
  const int64_t full =  // windows of the full length
      predictions < o.context ? 0 : (predictions - o.context) / o.stride + 1;
  for (int64_t window = 0; window < full; window += o.batch) {
    const int64_t count = std::min(o.batch, full - window);
    sum.add(read_windows(model, source, window * o.stride, count, o.context, o.stride, o.stride));
    if (o.progress) o.progress(sum.tokens, predictions);
    if (stopped(o)) return false;
  }
  if (sum.tokens == predictions) return true;
  const int64_t begin = full * o.stride;  // the rest, in a shorter window
  sum.add(read_windows(model, source, begin, 1, predictions - begin, o.stride,
                       predictions - sum.tokens));
  if (o.progress) o.progress(sum.tokens, predictions);
  return true;
}

// Scores the text as one stream, in pieces that continue from the previous state.
bool whole(LanguageModel& model, const TokenSource& source, const LanguageLossOptions& o,
           Sum& sum) {
  const int64_t predictions = source.size() - 1;
  LanguageState state;
  while (sum.tokens < predictions) {
    const int64_t length = std::min(kPieceTokens, predictions - sum.tokens);
    const Tensor tokens = torch::empty({1, length + 1}, torch::kInt64);
    source.copy(sum.tokens, length + 1, tokens.data_ptr<int64_t>());
    const Tensor hidden = model.hidden(tokens.slice(1, 0, length), &state);
    sum.add(score_targets(model, hidden, tokens.slice(1, 1)).loss);
    if (o.progress) o.progress(sum.tokens, predictions);
    if (stopped(o)) return false;
  }
  return true;
}

bool official(LanguageModel& model, const TokenSource& source, const LanguageLossOptions& o,
              Sum& sum, std::optional<double>& standard_error) {
  double squares = 0;
  for (int64_t i = 0; i < o.batches; ++i) {
    const auto [ids, targets] = crop_batch(source, o.batch, o.context, o.seed, i);
    const Tensor losses = score_targets(model, model.hidden(ids), targets).loss;
    squares += std::pow(losses.to(torch::kDouble).mean().item<double>(), 2);
    sum.add(losses);
    if (o.progress) o.progress(i + 1, o.batches);
    if (stopped(o)) return false;
  }
  if (o.batches > 1) {
    const auto n = static_cast<double>(o.batches);
    const double mean = sum.loss / static_cast<double>(sum.tokens);
    standard_error = std::sqrt(std::max(0.0, squares / n - mean * mean) / (n - 1));
  }
  return true;
}

}  // namespace

std::optional<LanguageLoss> language_loss(LanguageModel& model, const TokenSource& source,
                                          int64_t text_bytes, const LanguageLossOptions& options) {
  const LanguageLossOptions o = resolve(model, options);
  if (source.size() < 2) {
    fail_data(source.name(), " has ", source.size(), " token; at least 2 are needed to predict ",
              "one from another.");
  }
  const torch::InferenceMode no_grad;
  const EvaluationMode mode(model);
  const PrecisionScope precision(o.precision, device_of(model));
  const auto start = Clock::now();
  LanguageLoss result;
  result.context = o.context;
  Sum sum;
  const bool done = o.protocol == "official"
                        ? official(model, source, o, sum, result.standard_error)
                    : o.context == LanguageLossOptions::kWholeText ? whole(model, source, o, sum)
                                                                   : usual(model, source, o, sum);
  if (!done) return std::nullopt;
  result.tokens = sum.tokens;
  result.loss = sum.loss / static_cast<double>(sum.tokens);
  result.perplexity = std::exp(result.loss);
  if (o.protocol == "usual" && text_bytes > 0) {
    result.bits_per_byte = sum.loss / std::log(2.0) / static_cast<double>(text_bytes);
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  result.tokens_per_s = static_cast<double>(sum.tokens) / result.seconds;
  return result;
}

nlohmann::json to_json(const LanguageLoss& r) {
  return TOST_MEMBERS(r, loss, standard_error, perplexity, bits_per_byte, tokens, context, seconds,
                      tokens_per_s);
}

}  // namespace tost
