#include "tost/data/dataset.h"

#include "tost/base/error.h"

namespace tost {

ReducedImage ImageDataset::reduced_image(int64_t i, ChooseReduction choose) const {
  ReducedImage whole{image(i)};
  whole.width = whole.image.width;
  whole.height = whole.image.height;
  choose(whole.width, whole.height);
  return whole;
}

Image ImageDataset::mask(int64_t i) const {
  fail_usage("The pictures of '", name(i), "' have no masks; the generated set 'shapes' has.");
}

}  // namespace tost
