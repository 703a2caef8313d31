// The libFuzzer program of one target, TOST_FUZZ_TARGET; see fuzz/run.sh.
#include <cstddef>
#include <cstdint>

#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tost::fuzz::TOST_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
