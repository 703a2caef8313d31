#include "tost/engine/language_state.h"

#include "tost/base/error.h"

namespace tost {

int64_t state_bytes(const LanguageState& state) {
  int64_t bytes = 0;
  for (const Arrays& block : state.blocks) {
    for (const auto& [name, array] : block) bytes += array.held_bytes();
  }
  return bytes;
}

LanguageState copy_of(const LanguageState& state) {
  LanguageState copy{.position = state.position, .blocks = state.blocks};
  for (Arrays& block : copy.blocks) {
    for (auto& [name, array] : block) array = array.clone();
  }
  return copy;
}

void check_state(const Array& state, const Array::Shape& sizes, TorchDtype type) {
  if (state.dtype() == type && state.shape() == sizes) return;
  fail_usage("The state of ", shown(state), " is not one of ", sizes[0],
             " texts of this model; read the same number of texts on, or start again.");
}

Array& owned_state(Arrays& state, const char* name, const Array::Shape& sizes, TorchDtype type) {
  Array& array = state[name];
  if (!array.defined()) array = Array::zeros(sizes, type);
  check_state(array, sizes, type);
  if (!array.unique() || !array.strides().empty()) array = array.clone();
  return array;
}

}  // namespace tost
