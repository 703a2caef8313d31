// Picks, among functions compiled once per instruction set, the one for a target.
#pragma once

#include "tost/kernels/isa.h"

// HWY_VISIT_TARGETS would also name sets of other processors; these are the ones that are compiled.
#if HWY_TARGETS & HWY_AVX3
#define TOST_IF_AVX3(RUN, ...) RUN(HWY_AVX3, N_AVX3 __VA_OPT__(, ) __VA_ARGS__)
#else
#define TOST_IF_AVX3(RUN, ...)
#endif
#if HWY_TARGETS & HWY_AVX2
#define TOST_IF_AVX2(RUN, ...) RUN(HWY_AVX2, N_AVX2 __VA_OPT__(, ) __VA_ARGS__)
#else
#define TOST_IF_AVX2(RUN, ...)
#endif
#if HWY_TARGETS & HWY_SSE4
#define TOST_IF_SSE4(RUN, ...) RUN(HWY_SSE4, N_SSE4 __VA_OPT__(, ) __VA_ARGS__)
#else
#define TOST_IF_SSE4(RUN, ...)
#endif
#if HWY_TARGETS & HWY_SSSE3
#define TOST_IF_SSSE3(RUN, ...) RUN(HWY_SSSE3, N_SSSE3 __VA_OPT__(, ) __VA_ARGS__)
#else
#define TOST_IF_SSSE3(RUN, ...)
#endif
#if HWY_TARGETS & HWY_NEON
#define TOST_IF_NEON(RUN, ...) RUN(HWY_NEON, N_NEON __VA_OPT__(, ) __VA_ARGS__)
#else
#define TOST_IF_NEON(RUN, ...)
#endif
#if HWY_TARGETS & HWY_EMU128
#define TOST_IF_EMU128(RUN, ...) RUN(HWY_EMU128, N_EMU128 __VA_OPT__(, ) __VA_ARGS__)
#else
#define TOST_IF_EMU128(RUN, ...)
#endif
#if HWY_TARGETS & HWY_SCALAR
#define TOST_IF_SCALAR(RUN, ...) RUN(HWY_SCALAR, N_SCALAR __VA_OPT__(, ) __VA_ARGS__)
#else
#define TOST_IF_SCALAR(RUN, ...)
#endif

// RUN(target, namespace, further arguments) for each of them.
#define TOST_FOR_EACH_TARGET(RUN, ...)           \
  TOST_IF_AVX3(RUN __VA_OPT__(, ) __VA_ARGS__)   \
  TOST_IF_AVX2(RUN __VA_OPT__(, ) __VA_ARGS__)   \
  TOST_IF_SSE4(RUN __VA_OPT__(, ) __VA_ARGS__)   \
  TOST_IF_SSSE3(RUN __VA_OPT__(, ) __VA_ARGS__)  \
  TOST_IF_NEON(RUN __VA_OPT__(, ) __VA_ARGS__)   \
  TOST_IF_EMU128(RUN __VA_OPT__(, ) __VA_ARGS__) \
  TOST_IF_SCALAR(RUN __VA_OPT__(, ) __VA_ARGS__)

#define TOST_RETURN_OF_TARGET(TARGET, NAMESPACE, ...) \
  if (current == (TARGET)) return NAMESPACE::__VA_ARGS__;

// A call, as it is written inside of the namespace of an instruction set, of the set in use: of
// those named by isa.h there is always one.
#define TOST_OF_TARGET(...)                                  \
  [&]() -> decltype(auto) {                                  \
    const int64_t current = current_isa_target();            \
    TOST_FOR_EACH_TARGET(TOST_RETURN_OF_TARGET, __VA_ARGS__) \
    __builtin_unreachable();                                 \
  }()
