// Checksums, by the instructions of the processor.
#pragma once

#include <cstdint>
#include <string_view>

namespace tost {

// CRC-32 of zip archives (ISO 3309).
uint32_t zip_crc32(std::string_view bytes);

// CRC-32C (Castagnoli) of checkpoint manifests. Chain by giving the CRC of what came before.
// crc32c("123456789") == 0xe3069283.
uint32_t crc32c(std::string_view bytes, uint32_t before = 0);

}  // namespace tost
