// A text being written, saved and taken up again: a safetensors file with the model's state.
#pragma once

#include <filesystem>

#include "tost/kinds/language/generate.h"

namespace tost {

// Atomic and durable. The file names the model by its architecture and a sum over the bits of all
// weights.
void save_session(const std::filesystem::path& file, const TextSession& session,
                  const LanguageModel& model);

// Throws a data Error naming the file where it is not a session, is damaged, or belongs to another
// model (also to other weights of the same architecture). The model may have another precision than
// the one it was saved with.
TextSession load_session(const std::filesystem::path& file, LanguageModel& model);

}  // namespace tost
