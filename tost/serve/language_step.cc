// The steps of the model's thread: reads pieces of prompts, and draws a token of every text.
#include <algorithm>
#include <cmath>
#include <utility>

#include "tost/base/error.h"
#include "tost/serve/language_row.h"

namespace tost {

using torch::Tensor;
using Clock = std::chrono::steady_clock;

namespace {

// The largest number of prompt tokens between two steps, which bounds the wait of running texts.
constexpr int64_t kPromptBudget = 2 * kPrefixPiece;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// The logarithm of the sum of exponentials, summed in the order of ids.
double log_total(const float* logits, int64_t count) {
  const double top = *std::max_element(logits, logits + count);
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += std::exp(double(logits[i]) - top);
  return top + std::log(total);
}

// [1, n]
Tensor ids_tensor(std::span<const int32_t> ids) {
  return torch::tensor(c10::ArrayRef<int32_t>(ids.data(), ids.size()), torch::kLong).unsqueeze(0);
}

TokenLogprob logprob_of(const float* logits, int64_t count, int64_t id, int64_t alternatives) {
  const double total = log_total(logits, count);
  TokenLogprob result{.id = id, .logprob = double(logits[id]) - total, .top = {}};
  std::vector<int64_t> ids(size_t(count), 0);
  for (int64_t i = 0; i < count; ++i) ids[size_t(i)] = i;
  const auto end = ids.begin() + std::min(alternatives, count);
  std::partial_sort(ids.begin(), end, ids.end(), [logits](int64_t a, int64_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  for (auto at = ids.begin(); at != end; ++at) {
    result.top.emplace_back(*at, double(logits[*at]) - total);
  }
  return result;
}

}  // namespace

void LanguageService::advance() {
  drop_disconnected();
  read_prompts();
  step();
  draw();
}

void LanguageService::drop_disconnected() {
  for (auto& row : rows_) {
    const double s = row->request.seconds;
    if (row->request.events.disconnected && row->request.events.disconnected()) {
      ++metrics_.abandoned;
      end(*row, "interrupted");
    } else if (s > 0 && seconds_between(row->request.arrival, Clock::now()) > s) {
      end(*row, "interrupted", cat("The text was not written within ", s, " seconds."));
    }
  }
}

void LanguageService::start(TextRequest request) {
  rows_.push_back(std::make_unique<Row>(std::move(request), info()));
  Row& row = *rows_.back();
  if (row.request.prompt != nullptr) metrics_.prompt_tokens += int64_t(row.request.prompt->size());
  if (row.ids.empty()) end(row, "length");
}

// Looks up the cached prompt as late as possible, so that texts that begin together read it once.
void LanguageService::find_prefix(Row& row) {
  auto hit = prefixes_.find(row.ids);
  ++(hit.tokens > 0 ? metrics_.prefix_hits : metrics_.prefix_misses);
  metrics_.cached_tokens += hit.tokens;
  if (hit.tokens == 0) return;
  row.cached = row.read = hit.tokens;
  row.session.state = std::move(hit.state);
  row.remember(row.ids.begin(), row.ids.begin() + hit.tokens);
  if (!row.reading()) row.logits = hit.logits.defined() ? hit.logits : engine_.logits(hit.hidden);
}

// Reads a piece of the oldest prompt first, so that every prompt ends. Next reads pieces of the
// prompts with the fewest remaining tokens, so that short prompts do not wait for a long one.
void LanguageService::read_prompts() {
  const auto rest = [](const std::unique_ptr<Row>& row) {
    return row->ended ? 0 : int64_t(row->ids.size()) - row->read;
  };
  int64_t budget = kPromptBudget;
  bool first = true;
  while (budget > 0) {
    auto next = rows_.end();
    for (auto at = rows_.begin(); at != rows_.end(); ++at) {
      if (rest(*at) == 0) continue;
      if (next == rows_.end() || (!first && rest(*at) < rest(*next))) next = at;
    }
    if (next == rows_.end()) return;
    first = false;
    budget -= std::max<int64_t>(1, read_piece(**next));
  }
}

// Reads the next piece of a prompt; returns its number of tokens.
int64_t LanguageService::read_piece(Row& row) {
  auto& state = row.session.state;
  try {
    if (row.fresh && row.read == 0) find_prefix(row);
    const int64_t left = int64_t(row.ids.size()) - row.read;
    if (left == 0) return 0;
    const int64_t count = std::min(left, kPrefixPiece - state.position % kPrefixPiece);
    const auto ids = ids_tensor(row.ids.subspan(size_t(row.read), size_t(count)));
    if (count < kPrefixPiece) {
      row.logits = engine_.extend(ids, state);
      if (row.fresh && count == left) prefixes_.add(row.ids, row.read + count, state, row.logits);
    } else {
      const auto hidden = engine_.hidden(ids, &state).select(1, count - 1).clone();
      if (row.fresh) prefixes_.add(row.ids, row.read + count, state, hidden);
      if (count == left) row.logits = engine_.logits(hidden);
    }
    row.remember(row.ids.begin() + row.read, row.ids.begin() + row.read + count);
    row.read += count;
    if (row.reading()) row.logits.reset();
    return count;
  } catch (const std::exception& error) {
    end(row, "failed", error.what());
    return 0;
  }
}

// Passes the drawn token of every text through the model in one step.
void LanguageService::step() {
  std::vector<int64_t> ids;
  std::vector<LanguageState*> states;
  std::vector<Row*> stepped;
  for (auto& row : rows_) {
    if (row->ended || row->last < 0) continue;
    ids.push_back(row->last);
    states.push_back(&row->session.state);
    stepped.push_back(row.get());
  }
  if (stepped.empty()) return;
  try {
    const auto logits = engine_.step(ids, states);
    for (size_t i = 0; i < stepped.size(); ++i) {
      stepped[i]->logits = logits.narrow(0, int64_t(i), 1);
      stepped[i]->remember(&ids[i], &ids[i] + 1);
      stepped[i]->last = -1;
    }
    ++metrics_.steps;
  } catch (const std::exception& error) {
    for (auto* row : stepped) end(*row, "failed", error.what());
  }
}

void LanguageService::draw() {
  std::vector<Row*> ready;
  for (auto& row : rows_) {
    if (!row->ended && row->logits.defined()) ready.push_back(row.get());
  }
  at::parallel_for(0, int64_t(ready.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) draw_one(*ready[size_t(i)]);
  });
  for (auto* row : ready) emit(*row);
}

// Draws the next token of a row. Changes only this row, because several threads draw at once.
void LanguageService::draw_one(Row& row) {
  if (row.request.config.max_tokens == 0) return;
  const float* logits = row.logits.const_data_ptr<float>();
  try {
    row.last = row.writer.draw(logits);
    if (row.request.logprobs >= 0) {
      const auto count = std::min(info().tokenizer->vocab_size(), info().config.vocab);
      row.logprob = logprob_of(logits, count, row.last, row.request.logprobs);
    }
  } catch (const std::exception& error) {
    row.error = error.what();
  }
}

void LanguageService::emit(Row& row) {
  row.logits.reset();
  if (!row.error.empty()) return end(row, "failed", row.error);
  if (row.request.config.max_tokens == 0) return end(row, "length");
  const auto now = Clock::now();
  (row.writer.drawn() == 1 ? metrics_.first_token : metrics_.between_tokens)
      .add(seconds_between(row.before, now));
  row.before = now;
  ++metrics_.new_tokens;
  const auto piece = row.writer.text();
  const auto& ended = row.writer.ended();
  if (ended != "end") {
    row.request.events.piece(piece, row.logprob, row.session.state.position);
  }
  if (!ended.empty()) end(row, ended == "end" ? "stop" : ended);
}

void LanguageService::end(Row& row, const std::string& reason, const std::string& error) {
  if (row.ended) return;
  row.ended = true;
  auto& s = row.session;
  const auto rest = row.writer.finish(row.request.keep ? &s : nullptr);
  if (!rest.empty()) row.request.events.piece(rest, std::nullopt, s.state.position);
  TextEnd result{.reason = reason,
                 .error = error,
                 .prompt_tokens = int64_t(row.ids.size()) + (row.left >= 0),
                 .cached_tokens = row.cached,
                 .new_tokens = row.writer.drawn()};
  if (row.request.keep) {
    s.pending.assign(row.ids.begin() + row.read, row.ids.end());
    for (const int64_t id : {row.left, row.last}) {
      if (id >= 0) s.pending.push_back(id);
    }
    result.session = std::move(s);
  }
  row.request.events.end(std::move(result));
}

void LanguageService::embed(Embedding& e) {
  if (!e.sum.defined()) e.sum = torch::zeros({info().config.dim}, torch::kDouble);
  for (int64_t budget = kPromptBudget; budget > 0 && e.read < e.ids->size();) {
    const auto count = std::min(size_t(kPrefixPiece), e.ids->size() - e.read);
    const auto piece = ids_tensor(std::span(*e.ids).subspan(e.read, count));
    e.sum += engine_.hidden(piece, &e.state)[0].to(torch::kDouble).sum(0);
    e.read += count;
    budget -= int64_t(count);
  }
  if (e.read < e.ids->size()) return;
  const auto mean = (e.sum / e.sum.norm().clamp_min(1e-12)).to(torch::kFloat);
  e.direction.assign(mean.const_data_ptr<float>(), mean.const_data_ptr<float>() + mean.numel());
}

}  // namespace tost
