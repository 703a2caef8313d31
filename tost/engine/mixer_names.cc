#include "tost/engine/mixer_names.h"

#include <array>
#include <string_view>

#include "tost/base/error.h"

namespace tost {
namespace {

// Maps earlier names to present ones: "" for a dropped mixer, null for a name that never existed.
struct OldName {
  std::string_view name;
  const char* both;
  const char* causal;
};
constexpr std::array kOldNames{
    OldName{"tssa-running-means", "means", nullptr},
    OldName{"tssa-means", "", "means"},
    OldName{"tssa-uniform", "uniform", "uniform"},
    OldName{"tssa-group-means", "", nullptr},
    OldName{"tssa-length-free", "", nullptr},
    OldName{"tssa-running-means-uniform", "", nullptr},
    OldName{"tssa-means-uniform", nullptr, ""},
};

const char* new_name(const std::string& name, bool causal) {
  for (const OldName& old : kOldNames) {
    if (old.name == name) return causal ? old.causal : old.both;
  }
  return nullptr;
}

std::string in_use(const std::string& name, bool causal) {
  const char* found = new_name(name, causal);
  return found == nullptr || *found == '\0' ? name : found;
}

}  // namespace

std::string mixer_in_use(const std::string& name) {
  return in_use(name, /*causal=*/false);
}

std::string causal_mixer_in_use(const std::string& name) {
  return in_use(name, /*causal=*/true);
}

bool is_dropped_mixer(const std::string& name, bool causal) {
  return new_name(name, causal) != nullptr;
}

void check_heads(int64_t dim, int64_t heads) {
  if (dim >= 1 && heads >= 1 && dim % heads == 0) return;
  fail_usage(heads, " heads do not divide the width ", dim,
             "; choose a number of heads that divides it.");
}

}  // namespace tost
