// Describes weight files and checkpoints as JSON, without executing anything in them. Text from
// files is escaped.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/base/error.h"

namespace tost {

struct InspectOptions {
  bool statistics = false;  // least, greatest, NaN and infinities of every tensor
};

// {"file", "bytes", "format", "version", "shards", "models", "elements", "tensors", "storages",
//  "classes", "suspicious", "metadata"}, the parts that apply: of a file of torch.save or
// safetensors, or of an index of shards, which are reported as one file. "classes" are the names in
// its pickle; "suspicious" is true if one of them is not known to be harmless. Throws a data Error
// for a file that is refused or of another kind, and for shards that do not belong together.
nlohmann::ordered_json inspect_weight_file(const std::filesystem::path& path,
                                           const InspectOptions& options);

// Inspects what a path names. The report of a checkpoint's file has "error" if the file differs
// from the manifest. A folder of a checkpoint, or of a run (its best, else its latest checkpoint),
// gives {"folder", "checkpoint", "format", "arguments", "files"}. Its "files" are reports of weight
// files, also of refused ones. Throws a data Error if there is nothing to inspect.
nlohmann::ordered_json inspect(const std::filesystem::path& path, const InspectOptions& options);

// The report of a file or folder that cannot be inspected; "suspicious" is null in it.
nlohmann::ordered_json inspect_refusal(const std::filesystem::path& path, const Error& error);

}  // namespace tost
