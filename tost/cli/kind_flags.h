// Flags by the kind of model they go with, for commands that take both kinds.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tost/base/error.h"

namespace tost {

struct KindFlags {
  std::vector<CLI::Option*> image, language;
};

// A usage Error for a flag that was given and goes with the other kind; `kind` is model_kind()'s.
inline void check_kind(const std::string& kind, const KindFlags& flags) {
  const bool language = kind == "language";
  for (const CLI::Option* flag : language ? flags.image : flags.language) {
    if (flag->count() == 0) continue;
    fail_usage(flag->get_name(), " goes with ", language ? "image" : "language",
               " models, and this is ", language ? "a language" : "an image", " model.");
  }
}

}  // namespace tost
