// Describes weight files and checkpoints as JSON, without executing anything in them. Text that was
// read from files is escaped.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tost/base/error.h"

namespace tost {

struct InspectOptions {
  bool statistics = false;  // least, greatest, NaN and infinities of every tensor
};

// Describes a file of torch.save or safetensors, or an index of shards as one file. Returns
// {"file", "bytes", "format", "version", "shards", "models", "elements", "tensors", "storages",
//  "classes", "suspicious", "metadata"} without parts that do not apply. "classes" are the names in
// the pickle; "suspicious" is true if a name is not known to be harmless. Throws a data Error for
// an invalid or unknown file, and for shards that do not match.
nlohmann::ordered_json inspect_weight_file(const std::filesystem::path& path,
                                           const InspectOptions& options);

// Inspects a file or folder. The report of a checkpoint's file has "error" if the file differs from
// the manifest. For a folder of a checkpoint, or of a run (its best, else its latest checkpoint),
// returns {"folder", "checkpoint", "format", "arguments", "files"}. "files" has a report of each
// weight file, even a refused one. Throws a data Error if there is nothing to inspect.
nlohmann::ordered_json inspect(const std::filesystem::path& path, const InspectOptions& options);

// The report for a file or folder that cannot be inspected, in which "suspicious" is null.
nlohmann::ordered_json inspect_refusal(const std::filesystem::path& path, const Error& error);

}  // namespace tost
