// Files of token ids.
#include "tost/io/token_file.h"

#include "fuzz/memory_file.h"
#include "fuzz/targets.h"

namespace tost::fuzz {

void try_token_file(std::string_view input) {
  take_choice(input);  // inputs begin with a byte that chose the format
  const MemoryFile file(input);
  or_refuse([&] {
    const TokenFile tokens(file.path());
    require(tokens.size() >= 1 && static_cast<size_t>(tokens.size()) <= input.size() / 2,
            "as many tokens as bytes allow");
    const int32_t largest = tokens.largest();
    tokens.check_below(int64_t{largest} + 1, 0, tokens.size());
    tokens.check_below(largest, 0, tokens.size());
    require(false, "the largest token is found");
  });
}

}  // namespace tost::fuzz
