// Image classification without autograd, at the speed of the matrix units: weights laid out once,
// tiles of tokens carried through a whole block while they are in cache.
//
// Where there are at least as many images as threads, each thread carries its own images through
// all blocks; images that are left over, and small batches, are spread over the threads token by
// token.
#pragma once

#include <cstdint>
#include <memory>

#include "tost/engine/vision_weights.h"

namespace tost {

class PictureEngine {
 public:
  // Copies what it needs of the weights. fp32, bf16 or int8; what the CPU lacks is computed in
  // float32 on the same rounded weights and tokens. `mixer` runs mixers that the engine lacks
  // (engine_has()), between its phases; without it they are a data Error, as is a model that is
  // no transformer. Throws a usage Error for another precision, else as pack_vision_weights().
  PictureEngine(const VisionConfig& config, WeightSource& source, Precision precision,
                VisionMixer mixer = {});

  // images [count, in_channels, height, width] → logits [count, classes]. After the first call with
  // a shape nothing is allocated. An image gives the same bits at the same place of a batch,
  // whatever else is in it, as long as batch size and threads are the same. Throws the data Error
  // of check_sides(). Not for use by several threads at once.
  void forward(const float* images, int64_t count, int64_t height, int64_t width, float* logits);
  // Gives the logits of one picture, and adds to `maps` what the network does with it.
  void trace(const float* image, int64_t height, int64_t width, float* logits, PictureMaps& maps);

 private:
  void prepare(int64_t images, int64_t rows, int64_t columns);
  void pass(const float* pictures, int64_t count, float* logits);

  const VisionConfig config_;
  const bool half_;  // tokens are bfloat16
  const VisionMixer mixer_;
  const VisionWeights weights_;
  std::unique_ptr<VisionWorkspace> workspace_;
  Array position_;  // [N, C]
};

}  // namespace tost
