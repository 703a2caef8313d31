// Haystacks: sentences of a small grammar without digits, and the names of codes.
#pragma once

#include <string>

#include "tost/base/random.h"

namespace tost {

// `length` bytes; the last sentence may be cut.
std::string filler_text(int64_t length, Random& random);

int64_t needle_key_count();
const char* needle_key(int64_t i);  // none of the words of filler_text()

}  // namespace tost
