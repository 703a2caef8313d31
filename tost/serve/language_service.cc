#include "tost/serve/language_service.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/thread.h"
#include "tost/serve/api_error.h"
#include "tost/serve/language_row.h"

namespace tost {

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
  auto shared = std::make_unique<std::vector<int32_t>>(std::move(ids));
  if ((*prompt_tokens_ += count) > limits_.all_prompt_tokens) {
    *prompt_tokens_ -= count;
    throw ApiError(429, "Too many tokens of prompts wait; try again later.", {}, "queue_full");
  }
  return {shared.release(), [counter = prompt_tokens_, count](const std::vector<int32_t>* held) {
            delete held;
            *counter -= count;
          }};
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
    if (work) work(*loaded_.model);
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
  for (auto& work : works_) work(*loaded_.model);  // which checks whether the server has ended
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

}  // namespace tost
