#include "tost/serve/language_service.h"

#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/parallel.h"
#include "tost/engine/text_writer.h"
#include "tost/engine/threads.h"
#include "tost/serve/fields.h"

namespace tost {

using Clock = std::chrono::steady_clock;

namespace {

// The most prompt tokens between two steps, which bounds the wait of texts that are being written.
constexpr int64_t kPromptBudget = 2 * kPrefixPiece;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

std::vector<int64_t> piece_of(std::span<const int32_t> ids, int64_t from, int64_t count) {
  return {ids.begin() + from, ids.begin() + from + count};
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

// A text that is being read or written by a model's thread.
struct LanguageService::Row {
  Row(TextRequest r, const LanguageInfo& info)
      : request(std::move(r)),
        session(request.session ? std::move(*request.session) : TextSession()),
        writer(*info.tokenizer, info.config.vocab, request.config, request.stream, session),
        learned(info.config.positions == "learned"),
        fresh(session.state.position == 0) {
    const Prompt& prompt = request.prompt;
    if (prompt == nullptr || !session.pending.empty()) {
      joined_ids.assign(session.pending.begin(), session.pending.end());
      if (prompt != nullptr) joined_ids.insert(joined_ids.end(), prompt->begin(), prompt->end());
      ids = joined_ids;
      session.pending.clear();
    } else {
      ids = *prompt;
    }
    if (request.keep && request.config.max_tokens == 0) {
      left = ids.back();  // so that there is something to continue from
      ids = ids.first(ids.size() - 1);
    }
    if (prompt != nullptr) writer.note(*prompt);
  }

  // Sessions of models with learned positions hold all tokens read.
  template <class Ids>
  void remember(Ids begin, Ids end) {
    if (learned) session.history.insert(session.history.end(), begin, end);
  }

  bool reading() const { return read < int64_t(ids.size()); }

  TextRequest request;
  TextSession session;
  TextWriter writer;
  const bool learned;               // positions
  const bool fresh;                 // from position 0, so that its beginning may be shared
  std::vector<int32_t> joined_ids;  // the prompt after the pending tokens
  std::span<const int32_t> ids;     // to be read
  int64_t read = 0, cached = 0;     // of them
  Array logits;                     // [1, vocab] to draw from; undefined: none
  int64_t last = -1;                // drawn and not yet read; -1: none
  int64_t left = -1;                // the last of the prompt, if it stays unread
  std::optional<TokenLogprob> logprob;
  std::string error;
  bool ended = false;
  std::chrono::steady_clock::time_point before = request.arrival;  // its last token
};

LanguageService::LanguageService(ServedText text, const ServiceLimits& limits, Metrics& metrics)
    : text_(std::move(text)),
      limits_(limits),
      prompts_(limits.all_prompt_tokens),
      metrics_(metrics),
      format_(*text_.model),
      prefixes_(limits.prefix_bytes) {
  text_.model->expect_texts();
  thread_ = start_thread([this] { loop(); });
}

LanguageService::~LanguageService() {
  stop();
}

void LanguageService::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void LanguageService::check(const TextRequest& request) const {
  check_generate(request.config);
  const auto& session = request.session;
  int64_t start = request.prompt != nullptr ? int64_t(request.prompt->size()) : 0;
  if (start == 0 && (!session || session->pending.empty())) {
    fail_usage("The prompt is empty; give at least one token.");
  }
  if (session) start += session->state.position + int64_t(session->pending.size());
  // The last token of a text is not counted, because the model never reads it.
  if (start > most_tokens() || request.config.max_tokens - 1 > most_tokens() - start) {
    fail_usage("The model has positions for ", most_tokens(), " tokens, and ",
               request.config.max_tokens, " after the first ", start,
               " do not fit; shorten the prompt or lower max_tokens.");
  }
}

Prompt LanguageService::prompt(std::vector<int32_t> ids) {
  const auto count = int64_t(ids.size());
  const int64_t most = std::min(limits_.prompt_tokens, most_tokens());
  if (count > most) {
    throw ApiError(400, cat("The prompt has ", count, " tokens; at most ", most, " are read."),
                   "prompt", "context_length_exceeded");
  }
  const int64_t vocab = info().config.vocab;
  for (const int64_t id : ids) {
    if (id >= 0 && id < vocab) continue;
    fail_usage("Token ", id, " of the prompt is outside the model's vocabulary of ", vocab, ".");
  }
  ids.shrink_to_fit();
  struct Counted {
    std::vector<int32_t> ids;
    std::shared_ptr<void> share;
  };
  const auto held = std::make_shared<Counted>(std::move(ids), prompts_.take(count));
  if (held->share == nullptr) {
    throw ApiError(429, "Too many tokens of prompts wait; try again later.", {}, "queue_full");
  }
  return {held, &held->ids};
}

bool LanguageService::submit(std::vector<TextRequest> requests) {
  for (const auto& request : requests) check(request);
  {
    const std::lock_guard lock(mutex_);
    const int64_t most = requests.size() > 1 ? most_texts() : limits_.queue;
    if (stopping_ || int64_t(queue_.size() + requests.size()) > most) return false;
    ++turn_;
    for (auto& request : requests) {
      request.group = request.turn = turn_;
      queue_.push_back(std::move(request));
    }
    waiting_ = int64_t(queue_.size());
  }
  wake_.notify_all();
  return true;
}

bool LanguageService::run(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || int64_t(works_.size()) >= limits_.queue) return false;
    works_.push_back(std::move(work));
  }
  wake_.notify_all();
  return true;
}

void LanguageService::loop() {
  for (;;) {
    std::function<void()> work;
    std::vector<TextRequest> fresh;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] {
        return stopping_ || !rows_.empty() || !queue_.empty() || !works_.empty();
      });
      if (stopping_) break;
      while (take_turn(fresh)) {
      }
      if (!works_.empty()) {
        work = std::move(works_.front());
        works_.pop_front();
      }
      waiting_ = int64_t(queue_.size());
      running_ = int64_t(rows_.size() + fresh.size());
    }
    for (auto& request : fresh) {
      const auto on_end = request.events.end;
      try {
        start(std::move(request));
      } catch (const std::exception& error) {
        on_end({.reason = "failed", .error = error.what()});
      }
    }
    if (work) work();
    try {
      advance();
    } catch (const std::exception& error) {  // not enough memory
      for (auto& row : rows_) end(*row, "failed", error.what());
    }
    std::erase_if(rows_, [](const auto& row) { return row->ended; });
    running_ = int64_t(rows_.size());
  }
  const std::string why = "The server is shutting down.";
  for (auto& row : rows_) end(*row, "interrupted", why);
  rows_.clear();
  for (auto& request : queue_) {
    if (request.events.end) request.events.end({.reason = "interrupted", .error = why});
  }
  for (auto& work : works_) work();  // which checks whether the server has ended
  queue_.clear();
  works_.clear();
}

// Moves the next text from the queue to `fresh`; returns false if no text may begin.
bool LanguageService::take_turn(std::vector<TextRequest>& fresh) {
  if (int64_t(rows_.size() + fresh.size()) >= limits_.batch) return false;
  std::map<int64_t, int64_t> places;  // by request
  for (const auto& row : rows_) ++places[row->request.group];
  for (const auto& request : fresh) ++places[request.group];
  auto next = queue_.end();
  for (auto at = queue_.begin(); at != queue_.end(); ++at) {
    const auto key = [&places](const auto& it) { return std::pair(places[it->group], it->turn); };
    if (places[at->group] >= std::max<int64_t>(1, limits_.batch / 2)) continue;
    if (next == queue_.end() || key(at) < key(next)) next = at;
  }
  if (next == queue_.end()) return false;
  ++turn_;
  for (auto& request : queue_) {
    if (request.group == next->group) request.turn = turn_;
  }
  fresh.push_back(std::move(*next));
  queue_.erase(next);
  return true;
}

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

// Looks the prompt up as late as possible, so that texts that begin together read it once.
void LanguageService::find_prefix(Row& row) {
  auto hit = prefixes_.find(row.ids);
  ++(hit.tokens > 0 ? metrics_.prefix_hits : metrics_.prefix_misses);
  metrics_.cached_tokens += hit.tokens;
  if (hit.tokens == 0) return;
  row.cached = row.read = hit.tokens;
  row.session.state = std::move(hit.state);
  row.remember(row.ids.begin(), row.ids.begin() + hit.tokens);
  if (row.reading()) return;
  row.logits = hit.tokens % kPrefixPiece == 0 ? text_.model->logits(hit.last) : hit.last;
}

// Reads a piece of the oldest prompt, so that every prompt is finished, then of those with the
// fewest remaining tokens, so that short prompts do not wait for a long one.
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
    const auto ids = piece_of(row.ids, row.read, count);
    if (count < kPrefixPiece) {
      row.logits = text_.model->extend(ids.data(), 1, count, state);
      if (row.fresh && count == left) prefixes_.add(row.ids, row.read + count, state, row.logits);
    } else {
      const auto hidden = text_.model->hidden(ids.data(), 1, count, state).row(count - 1);
      if (row.fresh) prefixes_.add(row.ids, row.read + count, state, hidden);
      if (count == left) row.logits = text_.model->logits(hidden);
    }
    row.remember(row.ids.begin() + row.read, row.ids.begin() + row.read + count);
    row.read += count;
    if (row.reading()) row.logits = {};
    return count;
  } catch (const std::exception& error) {
    end(row, "failed", error.what());
    return 0;
  }
}

// Reads the drawn token of every text, in one step of the model.
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
    const Array logits = text_.model->step(ids, states);
    for (size_t i = 0; i < stepped.size(); ++i) {
      stepped[i]->logits = logits.row(int64_t(i));
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
  parallel_tasks(int64_t(ready.size()), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) draw_one(*ready[size_t(i)]);
  });
  for (auto* row : ready) emit(*row);
}

// Draws the next token of a row. Several threads do so at once, so it changes only this row.
void LanguageService::draw_one(Row& row) {
  if (row.request.config.max_tokens == 0) return;
  const float* logits = row.logits.data();
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
  row.logits = {};
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
  const auto dim = size_t(info().config.dim);
  e.sum.resize(dim);
  for (int64_t budget = kPromptBudget; budget > 0 && e.read < e.ids->size();) {
    const auto count = int64_t(std::min(size_t(kPrefixPiece), e.ids->size() - e.read));
    const auto ids = piece_of(*e.ids, int64_t(e.read), count);
    const Array rows = text_.model->hidden(ids.data(), 1, count, e.state);
    for (const float* x = rows.data(); x != rows.data() + rows.numel(); x += dim) {
      for (size_t i = 0; i < dim; ++i) e.sum[i] += x[i];
    }
    e.read += size_t(count);
    budget -= count;
  }
  if (e.read < e.ids->size()) return;
  double squares = 0;
  for (const double x : e.sum) squares += x * x;
  const double norm = std::max(std::sqrt(squares), 1e-12);
  for (const double x : e.sum) e.direction.push_back(float(x / norm));
}

}  // namespace tost
