// A program for the tests in Python that reads text on stdin and writes its GPT-2 ids to stdout as
// 16-bit numbers.
#include <iostream>
#include <iterator>

#include "tost/base/error.h"
#include "tost/io/tokenizers.h"

// VOCABULARY
int main(int argc, char** argv) try {
  if (argc != 2) return 2;
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  const auto tokenizer = tost::load_gpt2_tokenizer(argv[1]);
  for (const int32_t id : tokenizer->encode(text)) {
    std::cout.put(static_cast<char>(id & 0xFF)).put(static_cast<char>(id >> 8));
  }
  return 0;
} catch (const tost::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
