#include "tost/io/zip_crc32.h"

#include <zlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tost {
namespace {

uint32_t by_zlib(uint32_t crc, std::string_view bytes) {
  return static_cast<uint32_t>(
      ::crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

#if defined(__x86_64__)

#define TOST_CLMUL __attribute__((target("pclmul,sse4.1")))

TOST_CLMUL inline __m128i fold(__m128i a, __m128i k, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(a, k, 0x00);
  const __m128i high = _mm_clmulepi64_si128(a, k, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// 128 bits to the 32 of the checksum: two folds, then Barrett's reduction.
TOST_CLMUL uint32_t reduce(__m128i x) {
  const __m128i mask = _mm_setr_epi32(~0, 0, ~0, 0);
  const __m128i k3k4 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
  x = _mm_xor_si128(_mm_srli_si128(x, 8), _mm_clmulepi64_si128(x, k3k4, 0x10));
  const __m128i k5 = _mm_set_epi64x(0, 0x163cd6124);
  x = _mm_xor_si128(_mm_srli_si128(x, 4), _mm_clmulepi64_si128(_mm_and_si128(x, mask), k5, 0x00));
  const __m128i poly = _mm_set_epi64x(0x1f7011641, 0x1db710641);
  __m128i t = _mm_clmulepi64_si128(_mm_and_si128(x, mask), poly, 0x10);
  t = _mm_clmulepi64_si128(_mm_and_si128(t, mask), poly, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(x, t), 1));
}

// Gopal et al., "Fast CRC computation for generic polynomials using PCLMULQDQ", Intel 2009; at
// least 64 bytes, a multiple of 16. The constants are x^(4·128±32) and x^(128±32) mod P, reflected.
TOST_CLMUL uint32_t by_multiplication(uint32_t crc, const char* data, size_t size) {
  const auto load = [](const char* at) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  };
  __m128i x0 = _mm_xor_si128(load(data), _mm_cvtsi32_si128(static_cast<int>(~crc)));
  __m128i x1 = load(data + 16), x2 = load(data + 32), x3 = load(data + 48);
  const char* const end = data + size;
  data += 64;
  const __m128i k1k2 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
  for (; end - data >= 64; data += 64) {
    x0 = fold(x0, k1k2, load(data));
    x1 = fold(x1, k1k2, load(data + 16));
    x2 = fold(x2, k1k2, load(data + 32));
    x3 = fold(x3, k1k2, load(data + 48));
  }
  const __m128i k3k4 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
  x0 = fold(x0, k3k4, x1);
  x0 = fold(x0, k3k4, x2);
  x0 = fold(x0, k3k4, x3);
  for (; end - data >= 16; data += 16) x0 = fold(x0, k3k4, load(data));
  return ~reduce(x0);
}

#endif

}  // namespace

uint32_t zip_crc32(std::string_view bytes) {
  uint32_t crc = 0;
#if defined(__x86_64__)
  static const bool multiplies =
      __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
  if (multiplies && bytes.size() >= 64) {
    const size_t whole = bytes.size() / 16 * 16;
    crc = by_multiplication(crc, bytes.data(), whole);
    bytes.remove_prefix(whole);
  }
#endif
  return by_zlib(crc, bytes);
}

}  // namespace tost
