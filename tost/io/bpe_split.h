// Text cut into the pieces that GPT-2 encodes apart: contractions, words, numbers, other signs,
// white space.
#pragma once

#include <memory>
#include <string_view>

#include "tost/base/function_ref.h"

namespace tost {

// The official pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// with the letters and numbers of Unicode 16, whatever version PCRE2 was built with, and \s for the
// property White_Space: what tiktoken's engine takes them for.
class Gpt2Splitter {
 public:
  Gpt2Splitter();
  ~Gpt2Splitter();
  Gpt2Splitter(const Gpt2Splitter&) = delete;
  Gpt2Splitter& operator=(const Gpt2Splitter&) = delete;

  // Calls piece(view) for every piece in order; joined they are the text. A run of bytes that are
  // not UTF-8 is one piece, and what stands on either side is split as a text of its own. Safe from
  // several threads.
  void split(std::string_view text, function_ref<void(std::string_view)> piece) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace tost
