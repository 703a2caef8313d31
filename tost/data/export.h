// Writes generated data sets for this program and others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tost/data/sequence_dataset.h"
#include "tost/io/dataset.h"
#include "tost/io/text_export.h"

namespace tost {

// Writes the first `count` pictures (-1: all) as OUT/CLASS/000012.png, numbered by index, for
// open_image_dataset. With `masks`, also writes OUT-masks/CLASS/000012.png with 0 for background,
// else class + 1. Returns the pictures' paths. Throws a usage Error if `out` exists and is not
// empty, or the data set has no masks to write, and a data Error for a file that cannot be written.
std::vector<std::string> export_image_folder(const ImageDataset& dataset, const std::string& out,
                                             int64_t count = -1, bool masks = false,
                                             const ExportOptions& options = {});

struct SequenceExport {
  int64_t samples = 0;
  int64_t bytes = 0;
};

// Writes the generated ListOps of `spec` as the official generator does: basic_train.tsv,
// basic_val.tsv and basic_test.tsv in the folder `out`, which appears when it is complete.
// open_sequence_dataset(out) then gives the same samples as `spec`. Returns zeros if `stop` ended
// it. Throws a usage Error for an existing folder and for impossible sizes and rules, and a data
// Error for a file that cannot be written.
SequenceExport export_listops(const SequenceSpec& spec, const std::string& out,
                              const ExportOptions& options = {});

}  // namespace tost
