// What the kernels need of a device: CUDA's own, or the emulator's where the compiler is not nvcc.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define TOST_UNROLL _Pragma("unroll")
#define TOST_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
// Nothing where the grid is empty, which CUDA would refuse.
#define TOST_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                          \
  do {                                                                                       \
    if ((grid) > 0) {                                                                        \
      kernel<<<grid, block, shared_bytes, static_cast<cudaStream_t>(stream)>>>(__VA_ARGS__); \
    }                                                                                        \
  } while (false)
#else
#include <cstring>

#include "tost/kernels/cuda/emulator.h"
#endif

namespace tost::kernels::cuda {

// Storage of 16 bits; arithmetic is float32.
struct Bfloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

__device__ __forceinline__ float to_float(float x) {
  return x;
}
#if defined(__CUDACC__)
__device__ __forceinline__ float to_float(Bfloat16 x) {
  return __uint_as_float(static_cast<uint32_t>(x.bits) << 16);
}
__device__ __forceinline__ float to_float(Float16 x) {
  return __half2float(__ushort_as_half(x.bits));
}
__device__ __forceinline__ void store(float* p, float x) {
  *p = x;
}
__device__ __forceinline__ void store(Bfloat16* p, float x) {
  p->bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
__device__ __forceinline__ void store(Float16* p, float x) {
  p->bits = __half_as_ushort(__float2half_rn(x));
}
#else
#if defined(__aarch64__)
using HostHalf = __fp16;  // g++ 12 for Arm knows no other name
#else
using HostHalf = _Float16;
#endif
inline float to_float(Bfloat16 x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline float to_float(Float16 x) {
  HostHalf value;
  std::memcpy(&value, &x.bits, sizeof(value));
  return static_cast<float>(value);
}
inline void store(float* p, float x) {
  *p = x;
}
inline void store(Bfloat16* p, float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  p->bits = static_cast<uint16_t>(nan ? 0x7fc0U : (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
inline void store(Float16* p, float x) {
  const auto value = static_cast<HostHalf>(x);
  std::memcpy(&p->bits, &value, sizeof(value));
}
#endif

// V adjacent values, read and written at once.
template <class T, int V>
struct alignas(sizeof(T) * V) Pack {
  T values[V];
};
template <class T, int V>
__device__ __forceinline__ Pack<T, V> load_pack(const T* p) {
  return *reinterpret_cast<const Pack<T, V>*>(p);
}
// One store. An assignment is split where the compiler takes the pack apart, and nothing joins the
// pieces again.
template <class T, int V>
__device__ __forceinline__ void store_pack(T* p, const Pack<T, V>& pack) {
#if defined(__CUDACC__)
  if constexpr (sizeof(pack) == sizeof(uint4)) {
    const uint4 bits = *reinterpret_cast<const uint4*>(&pack);
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)),
                 "r"(bits.x), "r"(bits.y), "r"(bits.z), "r"(bits.w)
                 : "memory");
    return;
  } else if constexpr (sizeof(pack) == sizeof(uint2)) {
    const uint2 bits = *reinterpret_cast<const uint2*>(&pack);
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(p)), "r"(bits.x),
                 "r"(bits.y)
                 : "memory");
    return;
  }
#endif
  *reinterpret_cast<Pack<T, V>*>(p) = pack;
}
// A store of what the kernels do not read again: caches may let it go before what they do.
template <class T, int V>
__device__ __forceinline__ void stream_pack(T* p, const Pack<T, V>& pack) {
#if defined(__CUDACC__)
  if constexpr (sizeof(pack) == sizeof(uint4)) {
    __stcs(reinterpret_cast<uint4*>(p), *reinterpret_cast<const uint4*>(&pack));
    return;
  }
#endif
  *reinterpret_cast<Pack<T, V>*>(p) = pack;
}

}  // namespace tost::kernels::cuda
