// CRC-32C (Castagnoli), as TensorBoard's records and our checkpoint manifests use it.
#pragma once

#include <cstdint>
#include <string_view>

namespace tost {

// CRC of `bytes`; chain by giving the CRC of what came before. crc32c("123456789") == 0xe3069283.
uint32_t crc32c(std::string_view bytes, uint32_t before = 0);

// The same by tables: where the processor has no instruction for it.
uint32_t crc32c_by_tables(std::string_view bytes, uint32_t before = 0);

}  // namespace tost
