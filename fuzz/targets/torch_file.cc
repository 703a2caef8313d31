// Files of torch.save; torch_fuzz_test_util.h has the target.
#include "fuzz/targets.h"
#include "tost/io/torch_fuzz_test_util.h"

namespace tost::fuzz {

void try_torch_file(std::string_view input) {
  testing::try_torch_bytes(input);
}

}  // namespace tost::fuzz
