// Language models from weights that others have saved (foreign_source.h).
#pragma once

#include <filesystem>

#include "tost/kinds/language/file.h"

namespace tost {

// Throws data Errors in one sentence that names the file, and the tensor where one does not fit.
// Without a tokenizer where the file holds none. Models without LayerScale, nanoGPT's and GPT-2,
// get one of 1.
LoadedLanguage load_foreign_language(const std::filesystem::path& file,
                                     Weights weights = Weights::kRaw);

}  // namespace tost
