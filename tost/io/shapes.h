// The generated data set `shapes`: textured objects in front of cluttered, textured backgrounds.
//
// Every picture has one large object and one or two small ones of other classes; positions, sizes,
// tilts, colours and textures do not depend on the class. The label is the class of the large
// object. Only the outline shows the class, so a linear model stays near chance. Free of torch.
#pragma once

#include "tost/io/dataset.h"

namespace tost {

class ShapesDataset : public ImageDataset {
 public:
  // The split is "train", "validation" or "test"; the side is 16..512 pixels. Throws a usage Error.
  ShapesDataset(uint64_t seed, const std::string& split, int64_t side, int64_t size);

  int64_t size() const override { return size_; }
  const std::vector<std::string>& classes() const override;
  // label, image and mask are functions of (seed, split, i); image and mask also depend on side.
  int64_t label(int64_t i) const override;
  Image image(int64_t i) const override;
  std::string name(int64_t i) const override;
  bool has_mask() const override { return true; }
  Image mask(int64_t i) const override;  // small objects have their class + 1
  std::string format() const override { return "shapes"; }
  int64_t channels() const override { return 3; }
  int64_t side() const override { return side_; }

 private:
  uint64_t seed_;
  std::string split_;
  uint64_t stream_;
  int64_t side_;
  int64_t size_;
};

}  // namespace tost
