// One language model and the thread that runs it. Texts begin and end at any time; every step reads
// the weights once, for one token of each text.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tost/engine/generate.h"
#include "tost/engine/language_file.h"
#include "tost/engine/session_file.h"
#include "tost/serve/metrics.h"
#include "tost/serve/prefix_cache.h"

namespace tost {

struct TokenLogprob {
  int64_t id = 0;
  double logprob = 0;                                // of the model, before the sampler's settings
  std::vector<std::pair<int64_t, double>> top = {};  // most likely first
};

// The token ids of a prompt, shared by its texts and counted by LanguageService::prompt().
using Prompt = std::shared_ptr<const std::vector<int32_t>>;

struct TextEnd {
  std::string reason;      // length, stop (or an end-of-text token), interrupted, failed
  std::string error = {};  // a sentence, where it failed or was interrupted
  int64_t prompt_tokens = 0, cached_tokens = 0, new_tokens = 0;
  TextSession session = {};  // the session from here on, if requested
};

// Callbacks of a text, which run on the model's thread; each must return soon.
struct TextEvents {
  // Called after every token with the new final text (perhaps ""), the requested facts of the
  // token, and the position of a session.
  std::function<void(const std::string& piece, const std::optional<TokenLogprob>&,
                     int64_t position)>
      piece;
  std::function<void(TextEnd)> end;    // last, once
  std::function<bool()> disconnected;  // true ends the text before its next token
};

struct TextRequest {
  Prompt prompt = {};                       // read after the session; null: nothing
  std::optional<TextSession> session = {};  // none: a new text
  GenerateConfig config = {};               // past_block is ignored
  uint64_t stream = 0;    // draws from Random(config.seed, stream, session's draws)
  int64_t logprobs = -1;  // alternatives to report of every token; -1: nothing at all
  bool keep = false;      // whether `end` wants the session
  double seconds = 0;     // 0: no limit
  TextEvents events = {};
  std::chrono::steady_clock::time_point arrival = std::chrono::steady_clock::now();
  int64_t group = 0, turn = 0;  // set by the service: its request, and the order of service
};

struct ServiceLimits {
  int64_t batch = 32;                   // texts at a time
  int64_t queue = 256;                  // of waiting texts
  int64_t prompt_tokens = 1 << 20;      // of a text
  int64_t all_prompt_tokens = 4 << 20;  // of prompts that wait or are read
  int64_t prefix_bytes = 256 << 20;
};

// What a server needs of a language model.
struct ServedText {
  std::unique_ptr<EngineModel> model;
  LanguageInfo info;
  bool explains = false;  // by /v1/explain
};

class LanguageService {
 public:
  // Starts the model's thread.
  LanguageService(ServedText text, const ServiceLimits& limits, Metrics& metrics);
  ~LanguageService();  // stops
  LanguageService(const LanguageService&) = delete;
  LanguageService& operator=(const LanguageService&) = delete;

  // Ends running texts and refuses new ones. May be called more than once.
  void stop();

  const LanguageInfo& info() const { return text_.info; }
  Precision precision() const { return text_.model->precision(); }
  const ServedText& text() const { return text_; }
  const SessionFormat& format() const { return format_; }
  int64_t most_tokens() const { return max_context(info().config); }  // of a text
  // The largest number of texts of one submit(), so that a request cannot fill the queue.
  int64_t most_texts() const { return std::max<int64_t>(1, limits_.queue - limits_.queue / 4); }

  // Counts `ids` towards the limit until the last text that shares them has ended. Throws an
  // ApiError if the prompt (400) or all waiting prompts together (429) have too many tokens.
  Prompt prompt(std::vector<int32_t> ids);
  int64_t prompt_tokens() const { return prompts_.taken(); }

  // Queues all texts of a request or none: false, without any callback, if the queue is full.
  // Throws a usage Error for settings and texts that the model cannot take. The request with the
  // fewest running texts is served next, among equals the one that waited longest; none gets more
  // than half of the batch.
  bool submit(std::vector<TextRequest> requests);
  // Runs `work`, which must not throw, on the model's thread; false if the queue is full.
  bool run(std::function<void()> work);

  // A text that is read piece by piece, to compute the normalised mean [C] of its hidden vectors.
  struct Embedding {
    Prompt ids;
    size_t read = 0;
    LanguageState state = {};
    std::vector<double> sum = {};
    std::vector<float> direction = {};  // once all are read
  };
  // Reads at most as many tokens as are allowed between two steps. Must be called on the model's
  // thread.
  void embed(Embedding& embedding);

  int64_t waiting() const { return waiting_; }
  int64_t running() const { return running_; }

 private:
  struct Row;

  void check(const TextRequest& request) const;
  void loop();
  bool take_turn(std::vector<TextRequest>& fresh);
  void start(TextRequest request);
  void find_prefix(Row& row);
  void drop_disconnected();
  void advance();
  void read_prompts();
  int64_t read_piece(Row& row);
  void step();
  void draw();
  void draw_one(Row& row);
  void emit(Row& row);
  void end(Row& row, const std::string& reason, const std::string& error = {});

  const ServedText text_;
  const ServiceLimits limits_;
  Budget prompts_;
  Metrics& metrics_;
  const SessionFormat format_;
  PrefixCache prefixes_;
  std::vector<std::unique_ptr<Row>> rows_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<TextRequest> queue_;
  std::deque<std::function<void()>> works_;
  int64_t turn_ = 0;  // numbers submissions and begins
  bool stopping_ = false;
  std::atomic<int64_t> waiting_{0}, running_{0};
  std::thread thread_;
};

}  // namespace tost
