// Text that arrives token by token, given out as soon as it is certain.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tost {

// A token may end inside a character, and a stop string may be spread over several tokens: both are
// held back until they are complete. What can never become valid UTF-8 is given out as U+FFFD.
class TextStream {
 public:
  // `held`: what an earlier stream held back at its pause().
  explicit TextStream(std::vector<std::string> stop_strings = {}, std::string held = {});

  // The text that `bytes` make certain: valid UTF-8, nothing of a stop string or after it.
  std::string push(std::string_view bytes);
  bool stopped() const { return stopped_; }  // a stop string came

  // All that was held back but the beginning of a character, which held() keeps.
  std::string pause();
  const std::string& held() const { return held_; }

  // What was held back, at the end.
  std::string finish();

 private:
  std::string take(size_t count);

  std::vector<std::string> stop_;
  std::string held_;
  bool stopped_ = false;
};

// Bytes at the start of `text` that form whole characters; `final` counts a broken end as whole.
// Sets `out` to them with every invalid byte replaced by U+FFFD.
size_t whole_characters(std::string_view text, bool final, std::string& out);

}  // namespace tost
