// Picks, among functions compiled once per instruction set, the one for a target.
#pragma once

// HWY_VISIT_TARGETS would also name sets of other processors; these are the ones that are compiled.
#if HWY_TARGETS & HWY_AVX3
#define TOST_IF_AVX3(RUN) RUN(HWY_AVX3, N_AVX3)
#else
#define TOST_IF_AVX3(RUN)
#endif
#if HWY_TARGETS & HWY_AVX2
#define TOST_IF_AVX2(RUN) RUN(HWY_AVX2, N_AVX2)
#else
#define TOST_IF_AVX2(RUN)
#endif
#if HWY_TARGETS & HWY_SSE4
#define TOST_IF_SSE4(RUN) RUN(HWY_SSE4, N_SSE4)
#else
#define TOST_IF_SSE4(RUN)
#endif
#if HWY_TARGETS & HWY_SSSE3
#define TOST_IF_SSSE3(RUN) RUN(HWY_SSSE3, N_SSSE3)
#else
#define TOST_IF_SSSE3(RUN)
#endif
#if HWY_TARGETS & HWY_NEON
#define TOST_IF_NEON(RUN) RUN(HWY_NEON, N_NEON)
#else
#define TOST_IF_NEON(RUN)
#endif
#if HWY_TARGETS & HWY_EMU128
#define TOST_IF_EMU128(RUN) RUN(HWY_EMU128, N_EMU128)
#else
#define TOST_IF_EMU128(RUN)
#endif
#if HWY_TARGETS & HWY_SCALAR
#define TOST_IF_SCALAR(RUN) RUN(HWY_SCALAR, N_SCALAR)
#else
#define TOST_IF_SCALAR(RUN)
#endif

// RUN(target, namespace) for each of them.
#define TOST_FOR_EACH_TARGET(RUN) \
  TOST_IF_AVX3(RUN)               \
  TOST_IF_AVX2(RUN)               \
  TOST_IF_SSE4(RUN)               \
  TOST_IF_SSSE3(RUN)              \
  TOST_IF_NEON(RUN)               \
  TOST_IF_EMU128(RUN)             \
  TOST_IF_SCALAR(RUN)
