// libFuzzer target of the readers of torch files; see fuzz/run.sh.
#include <cstddef>
#include <cstdint>

#include "tost/io/torch_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tost::testing::try_torch_bytes({reinterpret_cast<const char*>(data), size}, false);
  return 0;
}
