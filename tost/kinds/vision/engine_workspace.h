// Memory of the vision engine, kept from call to call.
#pragma once

#include <cstdint>
#include <vector>

#include "tost/kinds/vision/config.h"
#include "tost/kinds/vision/engine_weights.h"
#include "tost/nn/block_pass.h"
#include "tost/torch.h"

namespace tost {

// Sizes of one pass over at most `images` pictures.
struct VisionShape {
  int64_t images = 0;
  int64_t rows = 0, columns = 0;    // of patches
  int64_t patches = 0, tokens = 0;  // N, and M = N + registers
  int64_t threads = 1;

  bool operator==(const VisionShape&) const = default;
};

// The rows are [images, M].
class VisionWorkspace : public BlockRows {
 public:
  VisionWorkspace(const VisionConfig& config, const VisionWeights& weights,
                  const VisionShape& shape, int64_t tile_rows);

  const VisionShape shape;
  const int64_t tile_rows;  // T
  void* tssa = nullptr;     // [images] pieces of tssa_bytes
  int64_t tssa_bytes = 0;
  std::vector<void*>
      classed;  // one a class block [images, 1 + N, C]: normed class and patch tokens
  std::vector<ThreadScratch> scratch;  // [threads]
  // [threads][stages]: what goes into a stage, the first one's only where it is not float32.
  std::vector<std::vector<void*>> pictures;
  float* class_stream = nullptr;  // [images, C]
  void* class_normed = nullptr;   // [images, C]
  float* class_query = nullptr;   // [images, H, C]
  void* class_sums = nullptr;     // [images, H, C]
  void* class_values = nullptr;   // [images, C]
  void* class_hidden = nullptr;   // [images, hidden]

 private:
  void lay_out(const VisionConfig& config, const VisionWeights& weights, ScratchMemory& memory);

  torch::Tensor memory_;
};

}  // namespace tost
