// What a weight file is and holds, without trusting it: torch.save's files, safetensors, and
// pickles that are neither.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tost {

struct InspectOptions {
  bool statistics = false;  // least, greatest, NaN and infinities of every tensor
  bool calls = false;       // the opcodes of the pickle, and what each would do
};

// {"file", "bytes", "format", "version", "models", "arguments", "contents", "tensors", "elements",
//  "storages", "classes", "classes_complete", "suspicious", "metadata", "error", "opcodes"}, the
// parts that apply. Text out of the file is escaped. "classes" are the names in all pickles of the
// file. A file that is refused gives "error", the sentence, and the names and opcodes that could
// still be listed. "suspicious" is true where a name is not known to be harmless, and null where
// none is but not all of them could be read, as in an archive that is damaged. Throws a data Error
// where the file cannot be opened, or is nothing of this kind at all.
nlohmann::ordered_json inspect_weight_file(const std::filesystem::path& path,
                                           const InspectOptions& options);

// The same of bytes in memory.
nlohmann::ordered_json inspect_torch_bytes(std::string_view bytes, const std::string& name,
                                           const InspectOptions& options);

}  // namespace tost
