// The checksum of zip archives (CRC-32, ISO 3309).
#pragma once

#include <cstdint>
#include <string_view>

namespace tost {

// By carry-less multiplication where the processor has it (several times faster than zlib's
// tables), else by zlib; the same number either way.
uint32_t zip_crc32(std::string_view bytes);

}  // namespace tost
