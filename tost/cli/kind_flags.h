// The flags and functions of each kind, for commands that take several kinds of model.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/options.h"
#include "tost/kinds/kinds.h"

namespace tost {

// Throws a usage Error for a flag that is set and only applies to other kinds.
inline void check_kind(const Kind& kind, const KindFlags& flags) {
  const auto takes = [&](const std::string& name, const CLI::Option* flag) {
    const auto list = flags.find(name);
    return list != flags.end() &&
           std::find(list->second.begin(), list->second.end(), flag) != list->second.end();
  };
  for (const Kind& owner : kinds()) {
    if (flags.count(owner.name) == 0) continue;
    for (const CLI::Option* flag : flags.at(owner.name)) {
      if (flag->count() == 0 || takes(kind.name, flag)) continue;
      std::vector<std::string> accepting;
      for (const Kind& other : kinds()) {
        if (takes(other.name, flag)) accepting.push_back(other.label);
      }
      const std::string flag_name =
          flag->nonpositional() ? flag->get_name() : cat("The argument '", flag->get_name(), "'");
      fail_usage(flag_name, " goes with ", join(accepting, " and "), " models, and this is ",
                 with_article(cat(kind.label, " model")), ".");
    }
  }
}

}  // namespace tost
