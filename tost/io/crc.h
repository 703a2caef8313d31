// Checksums, computed by instructions of the processor.
#pragma once

#include <cstdint>
#include <string_view>

namespace tost {

// The CRC-32 of zip archives (ISO 3309).
uint32_t zip_crc32(std::string_view bytes);

// The CRC-32C (Castagnoli) of checkpoint manifests; `before` is the CRC of the preceding bytes. For
// example, crc32c("123456789") == 0xe3069283.
uint32_t crc32c(std::string_view bytes, uint32_t before = 0);

}  // namespace tost
