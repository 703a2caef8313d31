#include "tost/engine/generate.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/posix.h"
#include "tost/base/text.h"
#include "tost/engine/text_writer.h"

namespace tost {
namespace {

using Clock = std::chrono::steady_clock;

void add(GenerateStats& sum, const GenerateStats& s) {
  sum.prompt_tokens += s.prompt_tokens;
  sum.new_tokens += s.new_tokens;
  sum.decode_steps += s.decode_steps;
  sum.prefill_s += s.prefill_s;
  sum.decode_s += s.decode_s;
  sum.state_bytes = std::max(sum.state_bytes, s.state_bytes);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

using Prompts = std::vector<std::vector<int64_t>>;

// One text being written.
struct Row {
  int64_t text;  // its number among all
  TextWriter writer;
  GeneratedText result = {};
  bool active = true;
};

class Generation {
 public:
  Generation(TextModel& model, const Tokenizer& tokenizer, const GenerateConfig& config,
             TextSession* session, const OnText& on_text, const std::atomic<bool>* stop)
      : model_(model),
        tokenizer_(tokenizer),
        config_(config),
        session_(session),
        on_text_(on_text),
        stop_(stop),
        block_(model.config().positions == "learned" ? model.config().block : 0) {}

  // `texts` has the index of each prompt among all prompts.
  GenerateResult run(Prompts prompts, const std::vector<int64_t>& texts) {
    start(prompts, texts);
    Array logits = read_prompts(std::move(prompts));
    const auto begin = Clock::now();
    for (int64_t i = 0; i < config_.max_tokens && !none_active(); ++i) {
      draw_tokens(logits);
      if (stopping()) end_all("interrupted");
      if (none_active() || i + 1 == config_.max_tokens) break;
      logits = read(next_ids());
      ++result_.stats.decode_steps;
    }
    result_.stats.decode_s = seconds_since(begin);
    finish();
    return std::move(result_);
  }

 private:
  bool stopping() const { return reader_closed_ || (stop_ != nullptr && stop_->load()); }

  void start(const Prompts& prompts, const std::vector<int64_t>& texts) {
    const TextSession fresh;
    for (size_t r = 0; r < prompts.size(); ++r) {
      rows_.push_back(
          {texts[r], TextWriter(tokenizer_, model_.config().vocab, config_, uint64_t(texts[r]),
                                session_ != nullptr ? *session_ : fresh)});
      rows_.back().writer.note(prompts[r]);
    }
    if (session_ != nullptr) {
      state_ = std::move(session_->state);
      histories_.assign(1, session_->history);
    }
    histories_.resize(prompts.size());
  }

  Array read_prompts(Prompts prompts) {
    const auto begin = Clock::now();
    Array logits;
    if (session_ != nullptr && !session_->pending.empty()) {
      logits = read({session_->pending});
      result_.stats.prompt_tokens += int64_t(session_->pending.size());
    }
    if (!prompts[0].empty() && unread_.empty()) {
      logits = read(prompts);
    } else {
      unread_.insert(unread_.end(), prompts[0].begin(), prompts[0].end());
    }
    const auto count = int64_t(prompts.size() * prompts[0].size());
    result_.stats.prompt_tokens += count;
    result_.stats.prefill_s = seconds_since(begin);
    if (count > kPieceTokens) {  // memory for cutting and reading it is returned at once
      prompts = {};
      malloc_trim(0);
    }
    return logits;
  }

  // Reads the same number of tokens in every text. If stopped, ends all texts and stores the unread
  // tokens of the first one in unread_.
  Array read(const Prompts& ids) {
    const auto count = int64_t(ids[0].size());
    if (block_ > 0) remember(ids);
    if (block_ > 0 && state_.position + count > block_) return slide();
    Array logits;
    for (int64_t t = 0; t < count; t += kPieceTokens) {
      const int64_t piece = std::min(kPieceTokens, count - t);
      std::vector<int64_t> batch;
      for (const auto& row : ids)
        batch.insert(batch.end(), row.begin() + t, row.begin() + t + piece);
      logits = model_.extend(batch.data(), int64_t(ids.size()), piece, state_);
      if (t + piece < count && block_ == 0 && stopping()) {
        unread_.assign(ids[0].begin() + t + piece, ids[0].end());
        end_all("interrupted");
        break;
      }
    }
    return logits;
  }

  void remember(const Prompts& ids) {
    for (size_t r = 0; r < ids.size(); ++r) {
      auto& h = histories_[r];
      h.insert(h.end(), ids[r].begin(), ids[r].end());
      if (int64_t(h.size()) > block_) h.erase(h.begin(), h.end() - block_);
    }
  }

  // Drops all tokens except the last half block, which is then read from position 0 on.
  Array slide() {
    state_ = {};
    const int64_t half = std::max<int64_t>(1, block_ / 2);
    std::vector<int64_t> batch;
    for (const auto& row : histories_) batch.insert(batch.end(), row.end() - half, row.end());
    return model_.extend(batch.data(), int64_t(rows_.size()), half, state_);
  }

  void draw_tokens(const Array& logits) {
    for (size_t r = 0; r < rows_.size(); ++r) {
      auto& row = rows_[r];
      if (!row.active) continue;
      row.result.ids.push_back(row.writer.draw(logits.data() + int64_t(r) * logits.size(1)));
      ++result_.stats.new_tokens;
      emit(row, row.writer.text());
      if (!row.writer.ended().empty()) end(row, row.writer.ended());
    }
  }

  void emit(Row& row, const std::string& piece) {
    if (piece.empty()) return;
    row.result.text += piece;
    if (on_text_ && !on_text_(row.text, piece)) reader_closed_ = true;
  }

  static void end(Row& row, const std::string& why) {
    row.active = false;
    row.result.ended = why;
  }
  void end_all(const char* why) {
    for (auto& row : rows_) {
      if (row.active) end(row, why);
    }
  }
  bool none_active() const {
    return std::none_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.active; });
  }

  // Makes texts that have ended read their last token again, and ignores the result.
  Prompts next_ids() const {
    Prompts ids;
    for (const auto& row : rows_) ids.push_back({row.result.ids.back()});
    return ids;
  }

  void finish() {
    end_all("length");
    for (auto& row : rows_) {
      emit(row, row.writer.finish(session_));
      result_.texts.push_back(std::move(row.result));
    }
    result_.stats.state_bytes = state_bytes(state_);
    if (session_ == nullptr) return;
    session_->state = std::move(state_);
    session_->history = std::move(histories_[0]);
    session_->pending = std::move(unread_);
    const auto& ids = result_.texts[0].ids;
    if (!ids.empty()) session_->pending.push_back(ids.back());
  }

  TextModel& model_;
  const Tokenizer& tokenizer_;
  const GenerateConfig& config_;
  TextSession* session_;
  const OnText& on_text_;
  const std::atomic<bool>* stop_;
  const int64_t block_;  // 0: no limit
  bool reader_closed_ = false;
  std::vector<int64_t> unread_;
  std::vector<Row> rows_;
  LanguageState state_;
  Prompts histories_;
  GenerateResult result_;
};

void check_prompts(const TextModel& model, const Prompts& prompts, const GenerateConfig& config,
                   const TextSession* session) {
  const bool pending = session != nullptr && !session->pending.empty();
  const int64_t vocab = model.config().vocab;
  const int64_t block = model.config().positions == "learned" ? model.config().block : 0;
  const int64_t before =
      session != nullptr ? session->state.position + int64_t(session->pending.size()) : 0;
  for (const auto& prompt : prompts) {
    if (prompt.empty() && !pending) fail_usage("The prompt is empty; give at least one token.");
    for (const int64_t id : prompt) {
      if (id >= 0 && id < vocab) continue;
      fail_data("Token ", id, " of the prompt is outside the model's vocabulary of ", vocab, ".");
    }
    // Does not read the last drawn token, whose logits are not needed.
    const int64_t start = before + int64_t(prompt.size());
    if (block > 0 && config.past_block == "stop" && config.max_tokens - 1 > block - start) {
      fail_usage("The model has learned positions for ", block, " tokens, and ", config.max_tokens,
                 " after the first ", start,
                 " do not fit; shorten the prompt, lower max-tokens, or let --past-block slide.");
    }
  }
}

}  // namespace

void check_generate(const GenerateConfig& config) {
  check_sampling(config.sampling);
  if (config.max_tokens < 0) {
    fail_usage("max-tokens is ", config.max_tokens, "; it must be 0 or above.");
  }
  if (config.past_block != "stop" && config.past_block != "slide") {
    fail_usage("past-block is '", config.past_block, "'; it must be stop or slide.",
               did_you_mean(config.past_block, {"stop", "slide"}));
  }
}

GenerateResult generate(TextModel& model, const Tokenizer& tokenizer,
                        std::vector<std::vector<int64_t>> prompts, const GenerateConfig& config,
                        TextSession* session, const OnText& on_text,
                        const std::atomic<bool>* stop) {
  if (prompts.empty()) return {};
  if (session != nullptr && prompts.size() != 1) {
    fail_usage("A session continues one text, not ", prompts.size(), ".");
  }
  check_generate(config);
  check_prompts(model, prompts, config, session);
  GenerateResult all;
  all.texts.resize(prompts.size());
  std::map<size_t, std::vector<int64_t>> groups;  // by number of tokens
  for (size_t i = 0; i < prompts.size(); ++i) groups[prompts[i].size()].push_back(int64_t(i));
  bool interrupted = false;
  for (const auto& [length, texts] : groups) {
    Prompts together;
    for (const int64_t i : texts) together.push_back(std::move(prompts[size_t(i)]));
    if (interrupted) {
      for (const int64_t i : texts) all.texts[size_t(i)].ended = "interrupted";
      continue;
    }
    auto result = Generation(model, tokenizer, config, session, on_text, stop)
                      .run(std::move(together), texts);
    for (size_t r = 0; r < texts.size(); ++r) {
      interrupted |= result.texts[r].ended == "interrupted";
      all.texts[size_t(texts[r])] = std::move(result.texts[r]);
    }
    add(all.stats, result.stats);
  }
  return all;
}

}  // namespace tost
