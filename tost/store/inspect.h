// What weight files and checkpoints are and hold, as JSON, without running anything of them. Text
// out of files is escaped.
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

// {"file", "bytes", "format", "version", "arguments", "contents", "models", "elements", "tensors",
//  "storages", "classes", "suspicious", "metadata"}, the parts that apply: of a file of torch.save
// or safetensors. "classes" are the names in its pickle; "suspicious" is true where one is not
// known to be harmless. Throws a data Error for a file that is refused or of another kind.
nlohmann::ordered_json inspect_weight_file(const std::filesystem::path& path,
                                           const InspectOptions& options);

// The same of what any path means. Of a file of a run's checkpoint "error" tells where it is not
// what the manifest says. Of the folder of a checkpoint, of a run (its best, else its latest one)
// or of an index of shards: {"folder", "checkpoint", "format", "arguments", "files", "whole"}. Its
// "files" are reports of weight files, or of such that are refused; "whole" is the model that the
// shards together are. Throws a data Error where there is nothing to inspect.
nlohmann::ordered_json inspect(const std::filesystem::path& path, const InspectOptions& options);

// The report of a file or folder that cannot be inspected; "suspicious" is null in it.
nlohmann::ordered_json inspect_refusal(const std::filesystem::path& path, const Error& error);

// {"index", "format", "shards", "bytes", "tensors", "elements", "models", "metadata", "errors"}:
// how many shards the index names; bytes, tensors and elements of those that are there and are what
// it says; the models that their tensors together are of; one sentence for every shard that is
// missing, damaged, or holds other tensors. Throws a data Error for an index that cannot be read.
nlohmann::ordered_json inspect_shards(const std::filesystem::path& index);

}  // namespace tost
