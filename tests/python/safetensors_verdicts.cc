// Prints every test file of safetensors_test_util.h for the tests in Python: its name, "valid" or
// "refused", and the bytes in hexadecimal.
#include <cstdio>
#include <iostream>

#include "tost/base/error.h"
#include "tost/io/safetensors_header.h"
#include "tost/io/safetensors_test_util.h"

int main() {
  using namespace tost;
  for (const auto& cases :
       {testing::frame_cases(), testing::entry_cases(), testing::place_cases()}) {
    for (const auto& one : cases) {
      const char* verdict = "valid";
      try {
        parse_safetensors_header(one.bytes, static_cast<int64_t>(one.bytes.size()), "it");
      } catch (const Error&) {
        verdict = "refused";
      }
      std::cout << one.name << ' ' << verdict << ' ';
      for (const char byte : one.bytes) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
        std::cout << digits;
      }
      std::cout << '\n';
    }
  }
}
