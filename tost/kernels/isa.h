// Which instruction set the kernels run on. All sets that this compiler can produce are built in;
// the best one that this CPU has is used unless one is forced by force_isa() or the environment
// variable TOST_ISA.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tost::kernels {

// Names of the sets that are built in and run on this CPU, best first; the last is always "scalar".
// On x86: avx512, avx2, sse4, ssse3, scalar.
std::vector<std::string> supported_isas();

// The set in use. The first call reads TOST_ISA and throws a usage Error if it names no supported
// set.
std::string current_isa();

// Uses the named set from the next kernel call on, in every thread; "auto" selects the best
// one. Throws a usage Error that lists the names if this one is unknown or not supported here.
void force_isa(std::string_view name);

// Highway's bit of the set in use. The first call sets Highway's target.
int64_t current_isa_target();

}  // namespace tost::kernels

// A function that is compiled once per instruction set and named by HWY_EXPORT, for the set in use:
// TOST_DISPATCH(norm)(args).
#define TOST_DISPATCH(FUNCTION) \
  (::tost::kernels::current_isa_target(), HWY_DYNAMIC_DISPATCH(FUNCTION))
