// Commands that take several kinds of model: the flags that go with each, and what each kind does.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/kinds/kinds.h"

namespace tost {

// By Kind::name. A flag may go with several kinds; one in no list goes with all.
using KindFlags = std::map<std::string, std::vector<CLI::Option*>>;

// A usage Error for a flag that was given and goes with other kinds alone.
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
      std::vector<std::string> takers;
      for (const Kind& other : kinds()) {
        if (takes(other.name, flag)) takers.push_back(other.label);
      }
      const std::string flag_name =
          flag->nonpositional() ? flag->get_name() : cat("The argument '", flag->get_name(), "'");
      fail_usage(flag_name, " goes with ", join(takers, " and "), " models, and this is ",
                 with_article(cat(kind.label, " model")), ".");
    }
  }
}

// The row of a command's table of kinds, each of which has its `kind` first. Every kind has a row.
template <class Row, size_t N>
const Row& row_of_kind(const Row (&rows)[N], const Kind& kind) {
  for (const Row& row : rows) {
    if (row.kind == kind.name) return row;
  }
  fail_usage("This command does not take ", kind.label, " models.");
}

}  // namespace tost
