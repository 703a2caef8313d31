#include "tost/kinds/language/scores.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/nn/module_device.h"

namespace tost {

using torch::Tensor;

namespace {

constexpr int64_t kLogitsAtOnce = int64_t{1} << 25;  // 128 MiB of float32

// What the model reads of a text: all but the last token, and what must fit its context.
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
    const Tensor own_places = places.narrow(0, begin, length);
    const Tensor target = to_device(wanted.index_select(0, own_places), rows.device());
    const Tensor chosen = to_device(own_places, rows.device());
    const Tensor logits = model.logits(rows.index_select(0, chosen)).to(torch::kFloat);
    const Tensor own = logits.gather(1, target.unsqueeze(1)).squeeze(1);
    scores.loss.narrow(0, begin, length).copy_(logits.logsumexp(1) - own);
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

}  // namespace tost
