// Selects the instruction set of the kernels: the best one that compiler and CPU support, unless
// force_isa() or the environment variable TOST_ISA forces another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tost::kernels {

// The names of the compiled sets that this CPU supports, best first; the last is always "scalar".
// The names on x86 are avx512, avx2, sse4 and scalar.
std::vector<std::string> supported_isas();

// The set in use. The name of the set in use. The first call reads TOST_ISA, and throws a usage
// Error if it names no supported set.
std::string current_isa();

// Makes all threads use the named set from the next kernel call on; "auto" selects the best one.
// Throws a usage Error, with the possible names, for an unknown or unsupported name.
void force_isa(std::string_view name);

// Highway's bit for the instruction set in use. The first call sets Highway's target.
int64_t current_isa_target();

}  // namespace tost::kernels

// Selects, for a function that HWY_EXPORT compiles, the version for the instruction set in use:
// TOST_DISPATCH(norm)(args).
#define TOST_DISPATCH(FUNCTION) \
  (::tost::kernels::current_isa_target(), HWY_DYNAMIC_DISPATCH(FUNCTION))
