#include "tost/kernels/isa.h"

#include <hwy/base.h>
#include <hwy/detect_targets.h>
#include <hwy/targets.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>

#include "tost/base/error.h"

#ifdef __EMSCRIPTEN__
// Replaces libhwy in a browser, where only one instruction set is compiled.
namespace hwy {
int64_t SupportedTargets() {
  return HWY_TARGETS;
}
ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}
}  // namespace hwy
#endif

namespace tost::kernels {
namespace {

constexpr int64_t kScalarTargets = HWY_SCALAR | HWY_EMU128;

// The supported sets, best first, because Highway gives better sets lower bits.
std::vector<int64_t> supported_targets() {
  std::vector<int64_t> targets;
  int64_t mask = HWY_TARGETS & (hwy::SupportedTargets() | kScalarTargets);
  for (; mask != 0; mask &= mask - 1) targets.push_back(mask & -mask);
  return targets;
}

std::string target_name(int64_t target) {
  if ((target & kScalarTargets) != 0) return "scalar";
  if (target == HWY_AVX3) return "avx512";
  std::string name = hwy::TargetName(target);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return name;
}

int64_t find_target(std::string_view name, std::string_view source) {
  const auto targets = supported_targets();
  if (name == "auto") return targets.front();
  std::string names;
  for (const int64_t target : targets) {
    if (target_name(target) == name) return target;
    names += target_name(target) + ", ";
  }
  fail_usage(source, " names the instruction set '", name,
             "', which this build and CPU do not have; use one of ", names, "or auto.");
}

// The set in use. Sets Highway's target, whose functions HWY_DYNAMIC_DISPATCH calls.
std::atomic<int64_t>& chosen_target() {
  static std::atomic<int64_t> target = [] {
    const char* name = std::getenv("TOST_ISA");
    const int64_t first = name == nullptr || *name == '\0' ? supported_targets().front()
                                                           : find_target(name, "TOST_ISA");
    hwy::GetChosenTarget().Update(first);
    return first;
  }();
  return target;
}

}  // namespace

std::vector<std::string> supported_isas() {
  std::vector<std::string> names;
  for (const int64_t target : supported_targets()) names.push_back(target_name(target));
  return names;
}

std::string current_isa() {
  return target_name(current_isa_target());
}

int64_t current_isa_target() {
  return chosen_target().load(std::memory_order_relaxed);
}

void force_isa(std::string_view name) {
  const int64_t target = find_target(name, "The request");
  chosen_target().store(target, std::memory_order_relaxed);
  hwy::GetChosenTarget().Update(target);
}

}  // namespace tost::kernels
