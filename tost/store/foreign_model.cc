#include "tost/store/foreign_model.h"

#include "tost/base/error.h"
#include "tost/base/text.h"

namespace tost {
int64_t ForeignModel::told(const char* what) const {
  const auto& value = model.at(what);
  return value.is_null() ? 0 : value.get<int64_t>();
}

int64_t ForeignModel::side(const std::string& name, size_t d) const {
  const auto found = shapes.find(name);
  if (found == shapes.end()) fail_data("There is no tensor '", name, "'.");
  if (d >= found->second.size()) {
    fail_data("Tensor '", name, "' has ", found->second.size(), " dimensions, expected at least ",
              d + 1, ".");
  }
  return found->second[d];
}

double foreign_mlp_ratio(int64_t hidden, int64_t dim) {
  if (dim <= 0) fail_data("Its width is ", dim, ".");
  return static_cast<double>(hidden) / static_cast<double>(dim);
}

std::string plain_name(std::string name) {
  for (bool more = true; more;) {
    more = false;
    for (const std::string_view prefix : {"_orig_mod.", "module."}) {
      if (!starts_with(name, prefix)) continue;
      name.erase(0, prefix.size());
      more = true;
    }
  }
  return name;
}

}  // namespace tost
