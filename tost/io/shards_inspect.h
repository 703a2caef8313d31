// What model lies in several safetensors files, by their index and the headers of all. Free of
// torch.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

namespace tost {

// {"index", "format", "shards", "bytes", "tensors", "elements", "models", "metadata", "errors"}:
// how many shards the index names; bytes, tensors and elements of those that are there and are what
// it says; the models that their tensors together are of, as recognise_models() tells; one sentence
// for every shard that is missing, damaged, or holds other tensors. Text out of the files is
// escaped. Throws a data Error for an index that is none or cannot be read.
nlohmann::ordered_json inspect_shards(const std::filesystem::path& index);

}  // namespace tost
