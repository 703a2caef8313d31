#include "tost/cli/train_flags.h"

#include <algorithm>

#include "tost/cli/field_option.h"
#include "tost/cli/train_help.h"
#include "tost/kinds/kinds.h"

namespace tost {
namespace {

// Every setting once, with the widest range of all kinds that have it; the chosen kind checks its
// value by its own range.
std::vector<FieldInfo> widest_fields() {
  std::vector<FieldInfo> all;
  for (const RunKind& kind : run_kinds()) {
    for (const FieldInfo& field : kind.fields) {
      const auto found = std::find_if(
          all.begin(), all.end(), [&](const FieldInfo& other) { return other.key == field.key; });
      if (found == all.end()) {
        all.push_back(field);
        continue;
      }
      found->low = std::min(found->low, field.low);
      found->high = std::max(found->high, field.high);
      join_choices(*found, field);
    }
  }
  return all;
}

}  // namespace

std::map<std::string, CLI::Option*> add_train_fields(CLI::App& command, nlohmann::json& values) {
  std::vector<FieldInfo> fields = widest_fields();
  // --help lists flags in the order in which they were added.
  std::stable_sort(fields.begin(), fields.end(), [](const FieldInfo& a, const FieldInfo& b) {
    return train_place(a.key) < train_place(b.key);
  });
  std::map<std::string, CLI::Option*> options;
  for (const FieldInfo& field : fields) {
    options[field.key] = add_field_option(command, field, values);
  }
  return options;
}

}  // namespace tost
