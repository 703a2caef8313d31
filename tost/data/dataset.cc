#include "tost/data/dataset.h"

#include "tost/base/error.h"

namespace tost {

Image ImageDataset::mask(int64_t i) const {
  fail_usage("The pictures of '", name(i), "' have no masks; the generated set 'shapes' has.");
}

}  // namespace tost
