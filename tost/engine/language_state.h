// The state of a language model after the tokens that it has read.
#pragma once

#include <cstdint>
#include <vector>

#include "tost/engine/array.h"

namespace tost {

struct LanguageState {
  int64_t position = 0;             // tokens read
  std::vector<Arrays> blocks = {};  // of each block's mixer
};

// The number of tokens that are read together, so that memory does not grow with a text.
inline constexpr int64_t kPieceTokens = 2048;

// The bytes of all arrays, with the reserve of their buffers.
int64_t state_bytes(const LanguageState& state);
// Shares nothing with it.
LanguageState copy_of(const LanguageState& state);

// Throws a usage Error unless an array of a block's state has the expected sizes, texts first.
void check_state(const Array& state, const Array::Shape& sizes, TorchDtype type);
// The state's array with a name and sizes, to be changed in place. A missing array is made of
// zeros, and a shared one is copied. Throws as check_state().
Array& owned_state(Arrays& state, const char* name, const Array::Shape& sizes, TorchDtype type);

}  // namespace tost
