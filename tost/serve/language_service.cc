#include "tost/serve/language_service.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/thread.h"
#include "tost/kinds/language/text_stream.h"

namespace tost {

using torch::Tensor;
using Clock = std::chrono::steady_clock;

namespace {

// Of prompts, between two steps: how long a text that is being written may be kept waiting.
constexpr int64_t kPromptBudget = 2 * kPrefixPiece;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// The logarithm of the sum of exponentials, in the order of ids.
double log_total(const float* logits, int64_t count) {
  const double top = *std::max_element(logits, logits + count);
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += std::exp(double(logits[i]) - top);
  return top + std::log(total);
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

// A text that is being read or written.
struct LanguageService::Row {
  Row(TextRequest r, int64_t allowed, int64_t unknown)
      : request(std::move(r)),
        session(request.session ? std::move(*request.session) : TextSession()),
        sampler(request.config.sampling, allowed, unknown),
        random(request.config.seed, request.stream, session.draws),
        stream(request.config.stop, session.held) {
    fresh = !request.session;
    ids = std::move(session.pending);
    ids.insert(ids.end(), request.prompt.begin(), request.prompt.end());
    session.pending.clear();
    if (request.keep && request.config.max_tokens == 0 && ids.size() > 1) {
      left = ids.back();  // so that there is something to continue from
      ids.pop_back();
    }
    for (const int64_t id : session.seen) sampler.note(id);
    for (const int64_t id : request.prompt) sampler.note(id);
  }

  // Sessions of models with learned positions hold all that was read.
  template <class Ids>
  void remember(Ids begin, Ids end) {
    if (learned) session.history.insert(session.history.end(), begin, end);
  }

  bool reading() const { return read < int64_t(ids.size()); }

  TextRequest request;
  TextSession session;
  Sampler sampler;
  Random random;
  TextStream stream;
  bool learned = false;          // positions
  bool fresh = false;            // from position 0, so that its beginning may be shared
  std::vector<int64_t> ids;      // to be read
  int64_t read = 0, cached = 0;  // of them
  Tensor logits;                 // [1, vocab] to draw from; undefined: none
  int64_t last = -1;             // drawn and not yet read; -1: none
  int64_t left = -1;             // the last of the prompt, where it is left unread
  int64_t drawn = 0;
  std::optional<TokenLogprob> logprob;
  std::string error;
  bool ended = false;
  Clock::time_point before = request.came;  // its last token
};

LanguageService::LanguageService(LoadedLanguage loaded, Precision precision,
                                 const ServiceLimits& limits, Metrics& metrics)
    : loaded_(std::move(loaded)),
      engine_(*loaded_.model, precision),
      limits_(limits),
      metrics_(metrics),
      prefixes_(limits.prefix_bytes) {
  {
    const torch::NoGradGuard no_grad;
    engine_.expect_texts();
    format_ = std::make_unique<SessionFormat>(*loaded_.model);
  }
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

int64_t LanguageService::most_tokens() const {
  return loaded_.model->max_context();
}

void LanguageService::check(const TextRequest& request) const {
  check_generate(request.config);
  const int64_t vocab = info().config.vocab;
  for (const int64_t id : request.prompt) {
    if (id >= 0 && id < vocab) continue;
    fail_usage("Token ", id, " of the prompt is outside the model's vocabulary of ", vocab, ".");
  }
  const auto& session = request.session;
  const bool pending = session && !session->pending.empty();
  if (request.prompt.empty() && !pending)
    fail_usage("The prompt is empty; give at least one token.");
  const int64_t start = int64_t(request.prompt.size()) +
                        (session ? session->state.position + int64_t(session->pending.size()) : 0);
  // The last token drawn is never read.
  if (start > most_tokens() || request.config.max_tokens - 1 > most_tokens() - start) {
    fail_usage("The model has positions for ", most_tokens(), " tokens, and ",
               request.config.max_tokens, " after the first ", start,
               " do not fit; shorten the prompt or lower max_tokens.");
  }
}

bool LanguageService::submit(TextRequest request) {
  std::vector<TextRequest> one;
  one.push_back(std::move(request));
  return submit(std::move(one));
}

bool LanguageService::submit(std::vector<TextRequest> requests) {
  for (const auto& request : requests) check(request);
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || int64_t(queue_.size() + requests.size()) > limits_.queue) return false;
    for (auto& request : requests) queue_.push_back(std::move(request));
    waiting_ = int64_t(queue_.size());
  }
  wake_.notify_all();
  return true;
}

bool LanguageService::run(std::function<void(LanguageModel&)> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || int64_t(works_.size()) >= limits_.queue) return false;
    works_.push_back(std::move(work));
  }
  wake_.notify_all();
  return true;
}

void LanguageService::loop() {
  if (limits_.threads > 0) at::set_num_threads(int(limits_.threads));
  const torch::NoGradGuard no_grad;
  for (;;) {
    std::function<void(LanguageModel&)> work;
    std::vector<TextRequest> fresh;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] {
        return stopping_ || !rows_.empty() || !queue_.empty() || !works_.empty();
      });
      if (stopping_) break;
      while (!queue_.empty() && int64_t(rows_.size() + fresh.size()) < limits_.batch) {
        fresh.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
      if (!works_.empty()) {
        work = std::move(works_.front());
        works_.pop_front();
      }
      waiting_ = int64_t(queue_.size());
      running_ = int64_t(rows_.size() + fresh.size());
    }
    for (auto& request : fresh) start(std::move(request));
    if (work) work(*loaded_.model);
    try {
      advance();
    } catch (const std::exception& error) {  // memory that there is not
      for (auto& row : rows_) end(*row, "failed", error.what());
    }
    std::erase_if(rows_, [](const auto& row) { return row->ended; });
    running_ = int64_t(rows_.size());
  }
  for (auto& row : rows_) end(*row, "interrupted");
  rows_.clear();
  for (auto& request : queue_) {
    if (request.events.end) request.events.end({.reason = "interrupted"});
  }
}

void LanguageService::advance() {
  drop_gone();
  read_prompts();
  step();
  draw();
}

void LanguageService::drop_gone() {
  for (auto& row : rows_) {
    const double s = row->request.seconds;
    if (row->request.events.gone && row->request.events.gone()) {
      ++metrics_.abandoned;
      end(*row, "interrupted");
    } else if (s > 0 && seconds_between(row->request.came, Clock::now()) > s) {
      end(*row, "length");
    }
  }
}

void LanguageService::start(TextRequest request) {
  const Tokenizer* tokenizer = info().tokenizer.get();
  const int64_t vocab = info().config.vocab;
  const int64_t allowed = tokenizer ? std::min(tokenizer->vocab_size(), vocab) : vocab;
  auto row =
      std::make_unique<Row>(std::move(request), allowed, tokenizer ? tokenizer->unknown() : -1);
  metrics_.prompt_tokens += int64_t(row->request.prompt.size());
  row->learned = info().config.positions == "learned";
  if (row->fresh) {
    auto hit = prefixes_.find(row->ids);
    ++(hit.tokens > 0 ? metrics_.prefix_hits : metrics_.prefix_misses);
    metrics_.cached_tokens += hit.tokens;
    row->cached = row->read = hit.tokens;
    if (hit.tokens > 0) {
      row->session.state = std::move(hit.state);
      row->remember(row->ids.begin(), row->ids.begin() + hit.tokens);
      if (!row->reading()) {
        row->logits = hit.logits.defined() ? hit.logits : engine_.logits(hit.hidden);
      }
    }
  }
  rows_.push_back(std::move(row));
}

// A piece of the prompt that came first, so that each is read in the end, and then the shortest
// rests, so that nobody waits for a long one.
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
    const int64_t before = rest(*next);
    read_piece(**next);
    budget -= std::max<int64_t>(1, before - rest(*next));
  }
}

void LanguageService::read_piece(Row& row) {
  auto& state = row.session.state;
  const int64_t left = int64_t(row.ids.size()) - row.read;
  const int64_t count = std::min(left, kPrefixPiece - state.position % kPrefixPiece);
  const auto ids =
      torch::tensor(c10::ArrayRef<int64_t>(row.ids.data() + row.read, size_t(count)), torch::kLong)
          .unsqueeze(0);
  try {
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
  } catch (const std::exception& error) {
    end(row, "failed", error.what());
  }
}

// One token of every text that has drawn one.
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

// Touches its row alone: rows are drawn by several threads.
void LanguageService::draw_one(Row& row) {
  if (row.request.config.max_tokens == 0) return;
  const float* logits = row.logits.const_data_ptr<float>();
  try {
    row.last = row.sampler.draw(logits, row.random);
    row.sampler.note(row.last);
    if (row.request.logprobs >= 0) {
      row.logprob =
          logprob_of(logits, int64_t(row.sampler.seen().size()), row.last, row.request.logprobs);
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
  (row.drawn == 0 ? metrics_.first_token : metrics_.between_tokens)
      .add(seconds_between(row.before, now));
  row.before = now;
  ++row.drawn;
  ++metrics_.new_tokens;
  const auto& tokenizer = info().tokenizer;
  if (row.last == tokenizer->end_of_text() && !row.request.config.ignore_end) {
    return end(row, "stop");
  }
  const auto piece = row.stream.push(tokenizer->piece(int32_t(row.last)));
  row.request.events.piece(piece, row.logprob);
  if (row.stream.stopped()) return end(row, "stop");
  if (row.drawn >= row.request.config.max_tokens) end(row, "length");
}

void LanguageService::end(Row& row, const std::string& reason, const std::string& error) {
  if (row.ended) return;
  row.ended = true;
  const auto rest = row.request.keep ? row.stream.pause() : row.stream.finish();
  if (!rest.empty()) row.request.events.piece(rest, std::nullopt);
  TextEnd result{.reason = reason,
                 .error = error,
                 .prompt_tokens = int64_t(row.ids.size()),
                 .cached_tokens = row.cached,
                 .new_tokens = row.drawn};
  if (row.request.keep) {
    auto& s = row.session;
    s.pending.assign(row.ids.begin() + row.read, row.ids.end());
    for (const int64_t id : {row.left, row.last}) {
      if (id >= 0) s.pending.push_back(id);
    }
    s.held = row.stream.held();
    s.seen.clear();
    const auto& seen = row.sampler.seen();
    for (size_t id = 0; id < seen.size(); ++id) {
      if (seen[id]) s.seen.push_back(int64_t(id));
    }
    ++s.draws;
    result.session = std::move(s);
  }
  row.request.events.end(std::move(result));
}

std::vector<float> LanguageService::embed(const std::vector<int64_t>& ids) {
  LanguageState state;
  Tensor sum = torch::zeros({info().config.dim}, torch::kDouble);
  for (int64_t t = 0; t < int64_t(ids.size()); t += kPrefixPiece) {
    const auto count = std::min(kPrefixPiece, int64_t(ids.size()) - t);
    const auto piece =
        torch::tensor(c10::ArrayRef<int64_t>(ids.data() + t, size_t(count)), torch::kLong);
    sum += engine_.hidden(piece.unsqueeze(0), &state)[0].to(torch::kDouble).sum(0);
  }
  const auto mean = (sum / sum.norm().clamp_min(1e-12)).to(torch::kFloat);
  return {mean.const_data_ptr<float>(), mean.const_data_ptr<float>() + mean.numel()};
}

}  // namespace tost
