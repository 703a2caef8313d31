// Flags by the kind of model they go with, for commands that take several kinds.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tost/base/error.h"
#include "tost/base/text.h"

namespace tost {

// A flag may go with several kinds; one in no list goes with all.
struct KindFlags {
  std::vector<CLI::Option*> image, language, sequence;
};

// A usage Error for a flag that was given and goes with other kinds alone; `kind` is
// model_kind()'s.
inline void check_kind(const std::string& kind, const KindFlags& flags) {
  const std::vector<std::pair<std::string, const std::vector<CLI::Option*>*>> kinds{
      {"image", &flags.image}, {"language", &flags.language}, {"sequence", &flags.sequence}};
  const std::string own = kind == "vision" ? "image" : kind;
  const auto takes = [](const std::vector<CLI::Option*>& list, const CLI::Option* flag) {
    return std::find(list.begin(), list.end(), flag) != list.end();
  };
  for (const auto& [name, list] : kinds) {
    for (const CLI::Option* flag : *list) {
      if (flag->count() == 0) continue;
      std::vector<std::string> takers;
      for (const auto& [other, others] : kinds) {
        if (takes(*others, flag)) takers.push_back(other);
      }
      if (std::find(takers.begin(), takers.end(), own) != takers.end()) continue;
      const std::string flag_name =
          flag->nonpositional() ? flag->get_name() : cat("The argument '", flag->get_name(), "'");
      fail_usage(flag_name, " goes with ", join(takers, " and "), " models, and this is ",
                 own == "image" ? "an " : "a ", own, " model.");
    }
  }
}

}  // namespace tost
