#include "tost/train/language_sample.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/random.h"

namespace tost {
namespace {

using torch::Tensor;

// logits [vocab]; ids from `limit` on have no piece.
int32_t draw(const Tensor& logits, int64_t limit, double temperature, Random& random) {
  const Tensor scores = logits.narrow(0, 0, std::min(limit, logits.size(0))).to(torch::kDouble);
  if (temperature == 0) return int32_t(scores.argmax().item<int64_t>());
  const Tensor sums = (scores / temperature).softmax(0).cumsum(0);
  const double* const sum = sums.const_data_ptr<double>();
  const int64_t count = sums.size(0);
  const double* const found = std::upper_bound(sum, sum + count, random.uniform() * sum[count - 1]);
  return int32_t(std::min<int64_t>(found - sum, count - 1));
}

Tensor as_batch(const std::vector<int32_t>& ids, size_t first) {
  const std::vector<int64_t> wide(ids.begin() + int64_t(first), ids.end());
  return torch::tensor(wide, torch::kLong).unsqueeze(0);
}

// Bytes that are not UTF-8 replaced, so that the text can be shown and logged.
std::string valid_utf8(const std::string& text) {
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace

std::string sample_text(LanguageModel& model, const Tokenizer& tokenizer,
                        const SampleRequest& request) {
  const torch::NoGradGuard no_grad;
  Random random(request.seed, request.stream);
  const auto limit = size_t(model.max_context());
  std::vector<int32_t> ids = tokenizer.encode(request.prompt);
  LanguageState state;
  Tensor logits = model.extend(as_batch(ids, ids.size() > limit ? ids.size() - limit : 0), state);
  for (int64_t i = 0; i < request.tokens; ++i) {
    ids.push_back(draw(logits[0], tokenizer.vocab_size(), request.temperature, random));
    if (i + 1 == request.tokens) break;
    const bool full = uint64_t(state.position) >= limit;
    if (full) state = {};
    logits = model.extend(as_batch(ids, ids.size() - (full ? (limit + 1) / 2 : 1)), state);
  }
  return valid_utf8(tokenizer.decode(ids));
}

void check_sample(const LanguageInfo& info, const LanguageTrainConfig& config) {
  if (info.tokenizer == nullptr) {
    fail_usage("'", config.data,
               "' comes without a tokenizer, so samples cannot be written; set tokenizer, or "
               "sample_every_steps to 0.");
  }
  try {
    if (!info.tokenizer->encode(config.sample_prompt).empty()) return;
  } catch (const Error& error) {
    fail_usage("sample_prompt cannot be used: ", error.what());
  }
  fail_usage("sample_prompt is empty; give at least one token, or set sample_every_steps to 0.");
}

}  // namespace tost
