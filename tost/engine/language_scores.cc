#include "tost/engine/language_scores.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/io/parse_json.h"

namespace tost {

namespace {

// The number of last tokens of a text that the model reads: all but the very last one, if they fit
// the context.
int64_t read_length(const ScoredText& text, int64_t context) {
  const auto size = static_cast<int64_t>(text.ids.size());
  if (text.targets < 1 || text.targets >= size) {
    fail_data("A text of ", size, " tokens cannot have its last ", text.targets, " predicted.");
  }
  const int64_t length = std::min(size - 1, context);
  if (length < text.targets) {
    fail_data("A text has ", text.targets, " tokens to be predicted and the model a context of ",
              context, ".");
  }
  return length;
}

using Clock = std::chrono::steady_clock;

constexpr int64_t kDefaultTokens = 8192;  // of the windows read together
constexpr int64_t kOfficialBatch = 16;

struct Sum {
  double loss = 0;
  int64_t tokens = 0;

  void add(const TokenScores& scores) {
    loss = std::accumulate(scores.loss.begin(), scores.loss.end(), loss);
    tokens += std::ssize(scores.loss);
  }
};

// Replaces zeros in the settings by their defaults.
LanguageLossOptions resolve(const TextModel& model, LanguageLossOptions o) {
  const std::vector<std::string> protocols = {"usual", "official"};
  if (o.protocol != protocols[0] && o.protocol != protocols[1]) {
    fail_usage("Unknown protocol '", o.protocol, "'; use usual or official.",
               did_you_mean(o.protocol, protocols));
  }
  const bool whole = o.context == LanguageLossOptions::kWholeText;
  if (whole && (o.protocol == "official" || o.stride != 0)) {
    fail_usage("A whole text is read by the usual protocol without a stride.");
  }
  if (whole && max_context(model.config()) <= model.config().block) {
    fail_usage("The model has learned positions for ", model.config().block,
               " tokens; a whole text needs a model with positions 'none'.");
  }
  if (o.context == 0) o.context = model.config().block;
  if (!whole && (o.context < 1 || o.context > max_context(model.config()))) {
    fail_usage("A context of ", o.context, " tokens is impossible; this model takes 1 to ",
               max_context(model.config()), ".");
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

// Divides crops [count, length + 1] into ids [count, length] and the tokens after them.
std::pair<std::vector<int64_t>, std::vector<int64_t>> ids_and_targets(
    const std::vector<int64_t>& crops, int64_t length) {
  std::pair<std::vector<int64_t>, std::vector<int64_t>> both;
  for (auto crop = crops.begin(); crop < crops.end(); crop += length + 1) {
    both.first.insert(both.first.end(), crop, crop + length);
    both.second.insert(both.second.end(), crop + 1, crop + 1 + length);
  }
  return both;
}

// Reads `count` windows of `length` predictions, one every `stride` tokens from `begin`. Scores the
// last `fresh` predictions of each window, and all predictions of the text's first window.
TokenScores read_windows(TextModel& model, const TokenSource& source, int64_t begin, int64_t count,
                         int64_t length, int64_t stride, int64_t fresh) {
  std::vector<int64_t> crops(size_t(count * (length + 1)));
  for (int64_t row = 0; row < count; ++row) {
    source.copy(begin + row * stride, length + 1, crops.data() + row * (length + 1));
  }
  auto [ids, targets] = ids_and_targets(crops, length);
  for (int64_t row = begin == 0 ? 1 : 0; row < count; ++row) {
    std::fill_n(targets.begin() + row * length, length - fresh, -1);
  }
  return model.score(ids.data(), targets.data(), count, length, nullptr);
}

bool usual(TextModel& model, const TokenSource& source, const LanguageLossOptions& o, Sum& sum) {
  const int64_t predictions = source.size() - 1;
  const int64_t full =  // windows of the full length
      predictions < o.context ? 0 : (predictions - o.context) / o.stride + 1;
  for (int64_t window = 0; window < full; window += o.batch) {
    const int64_t count = std::min(o.batch, full - window);
    sum.add(read_windows(model, source, window * o.stride, count, o.context, o.stride, o.stride));
    if (o.progress) o.progress(sum.tokens, predictions);
    if (o.stopped()) return false;
  }
  if (sum.tokens == predictions) return true;
  const int64_t begin = full * o.stride;  // the rest, in a shorter window
  sum.add(read_windows(model, source, begin, 1, predictions - begin, o.stride,
                       predictions - sum.tokens));
  if (o.progress) o.progress(sum.tokens, predictions);
  return true;
}

// Scores the text as one stream, in pieces that continue from the previous state.
bool whole(TextModel& model, const TokenSource& source, const LanguageLossOptions& o, Sum& sum) {
  const int64_t predictions = source.size() - 1;
  LanguageState state;
  while (sum.tokens < predictions) {
    const int64_t length = std::min(kPieceTokens, predictions - sum.tokens);
    std::vector<int64_t> tokens(size_t(length + 1));
    source.copy(sum.tokens, length + 1, tokens.data());
    sum.add(model.score(tokens.data(), tokens.data() + 1, 1, length, &state));
    if (o.progress) o.progress(sum.tokens, predictions);
    if (o.stopped()) return false;
  }
  return true;
}

bool official(TextModel& model, const TokenSource& source, const LanguageLossOptions& o, Sum& sum,
              std::optional<double>& standard_error) {
  double squares = 0;
  for (int64_t i = 0; i < o.batches; ++i) {
    const auto [ids, targets] =
        ids_and_targets(crop_tokens(source, o.batch, o.context, o.seed, i), o.context);
    const double before = sum.loss;
    sum.add(model.score(ids.data(), targets.data(), o.batch, o.context, nullptr));
    squares += std::pow((sum.loss - before) / double(ids.size()), 2);
    if (o.progress) o.progress(i + 1, o.batches);
    if (o.stopped()) return false;
  }
  if (o.batches > 1) {
    const auto n = static_cast<double>(o.batches);
    const double mean = sum.loss / static_cast<double>(sum.tokens);
    standard_error = std::sqrt(std::max(0.0, squares / n - mean * mean) / (n - 1));
  }
  return true;
}

}  // namespace

std::vector<TokenScores> score_texts(TextModel& model, const std::vector<ScoredText>& texts) {
  if (texts.empty()) return {};
  std::vector<int64_t> lengths;
  for (const ScoredText& text : texts) {
    lengths.push_back(read_length(text, max_context(model.config())));
  }
  const int64_t rows = std::ssize(texts), longest = *std::ranges::max_element(lengths);
  std::vector<int64_t> ids(size_t(rows * longest)), targets(ids.size(), -1);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t length = lengths[size_t(row)], scored = texts[size_t(row)].targets;
    const auto end = texts[size_t(row)].ids.end();
    std::copy(end - 1 - length, end - 1, ids.begin() + row * longest);
    std::copy(end - scored, end, targets.begin() + row * longest + length - scored);
  }
  const TokenScores scores = model.score(ids.data(), targets.data(), rows, longest, nullptr);
  std::vector<TokenScores> result;
  auto loss = scores.loss.begin();
  auto likely = scores.likely.begin();
  for (const ScoredText& text : texts) {
    result.push_back({{loss, loss + text.targets}, {likely, likely + text.targets}});
    loss += text.targets;
    likely += text.targets;
  }
  return result;
}

std::optional<LanguageLoss> language_loss(TextModel& model, const TokenSource& source,
                                          int64_t text_bytes, const LanguageLossOptions& options) {
  const LanguageLossOptions o = resolve(model, options);
  if (source.size() < 2) {
    fail_data(source.name(), " has ", source.size(), " token; at least 2 are needed to predict ",
              "one from another.");
  }
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
