// Selects the instruction set of the kernels: the best one that compiler and CPU support, unless
// force_isa() or the environment variable TOST_ISA forces another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tost::kernels {

// The names of the compiled sets that this CPU supports, best first; the last is always "scalar".
// On x86: avx512, avx2, sse4, ssse3, scalar.
std::vector<std::string> supported_isas();

// The set in use. The name of the set in use. The first call reads TOST_ISA, and throws a usage
// Error if it names no supported set.
std::string current_isa();

// Makes all threads use the named set from the next kernel call on; "auto" selects the best one.
// Throws a usage Error that lists the names if this one is unknown or not supported here.
void force_isa(std::string_view name);

// Highway's bit of the set in use. The first call sets Highway's target.
int64_t current_isa_target();

}  // namespace tost::kernels

// Selects the version for the current instruction set of a function that HWY_EXPORT compiles for
// all: TOST_DISPATCH(norm)(args).
#define TOST_DISPATCH(FUNCTION) \
  (::tost::kernels::current_isa_target(), HWY_DYNAMIC_DISPATCH(FUNCTION))
