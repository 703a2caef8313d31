// What `tost bench data` reads: pictures that are drawn here, with their plain decode.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tost/data/loader.h"
#include "tost/io/image.h"
#include "tost/study/data_bench.h"

namespace tost {

inline constexpr int64_t kRawSide = 32;  // of raw pictures

struct PictureSource {
  std::string name;
  std::shared_ptr<const ImageDataset> dataset;
  int64_t side = 0;  // of the network's input
  // Picture i whole, read and decoded without this program's reader; of raw pictures a copy.
  std::function<Image(int64_t i)> plain;
  bool decodes = true;  // whether plain() is work worth timing
};

// jpeg, png or raw, files below `folder`. Throws a data Error where they cannot be written.
PictureSource make_picture_source(const std::string& name, const DataBenchOptions& options,
                                  const std::filesystem::path& folder);

// The loader for a recipe of `tost train` or eval. Throws a usage Error for unknown recipes.
LoaderConfig loader_config(const PictureSource& source, const std::string& recipe,
                           const DataBenchOptions& options, int64_t workers);

// Throws a data Error unless pictures equal their plain decode and the loader's batches equal those
// made without workers (for eval: from plain decodes). Returns DataBenchRow::deviation.
double check_pictures(const PictureSource& source, const LoaderConfig& config);

// libjpeg as its manual uses it: what the reader of pictures is compared with.

// Decodes an RGB JPEG at full size. Throws a data Error for anything else.
Image decode_jpeg_plainly(std::string_view bytes);

}  // namespace tost
