// Data sets written out for people and other programs: image folders and contact sheets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tost/data/dataset.h"

namespace tost {

struct ExportOptions {
  int64_t count = -1;  // the first pictures; -1: all
  bool masks = false;  // also OUT-masks/CLASS/000012.png: 0 background, else class + 1
  std::function<void(int64_t done, int64_t total)> progress;
  std::function<bool()> stop;  // asked before every picture
};

// Writes OUT/CLASS/000012.png, numbered by index: an image folder that open_image_dataset reads.
// Returns the pictures' paths. Throws a usage Error if `out` exists and is not empty, and where
// masks are wanted of a data set without them; a data Error for a file that cannot be written.
std::vector<std::string> export_image_folder(const ImageDataset& dataset, const std::string& out,
                                             const ExportOptions& options = {});

// `columns` pictures a row, each enlarged `scale` times (nearest pixel), 2 pixels apart on white;
// masks, if wanted, to the right of each picture, background black. Throws a usage Error for
// columns outside 1...10,000, a scale outside 1...64, no picture, and over 2^28 pixels in all.
Image contact_sheet(const ImageDataset& dataset, const std::vector<int64_t>& indices,
                    int64_t columns, int64_t scale, bool masks = false);

}  // namespace tost
