// A text that is being read or written by a model's thread.
#pragma once

#include <span>

#include "tost/engine/text_writer.h"
#include "tost/serve/language_service.h"

namespace tost {

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

  // All tokens read, which sessions of models with learned positions store.
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
  torch::Tensor logits;             // [1, vocab] to draw from; undefined: none
  int64_t last = -1;                // drawn and not yet read; -1: none
  int64_t left = -1;                // the last of the prompt, if it stays unread
  std::optional<TokenLogprob> logprob;
  std::string error;
  bool ended = false;
  std::chrono::steady_clock::time_point before = request.arrival;  // its last token
};

}  // namespace tost
