// Inflates gzip data piece by piece, so that a reader decides how much it is willing to hold.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tost {

bool is_gzip(std::string_view bytes);

// Reads a file's content in order, inflating it if it is gzip (members may follow one another).
// `bytes` must outlive the reader; `name` appears in every message.
class ContentReader {
 public:
  ContentReader(std::string_view bytes, std::string name);
  ~ContentReader();
  ContentReader(const ContentReader&) = delete;
  ContentReader& operator=(const ContentReader&) = delete;

  // Up to `count` bytes, fewer only at the end. Throws a data Error for damaged gzip data,
  // including a file that stops before its gzip trailer.
  int64_t read(uint8_t* to, int64_t count);

 private:
  struct Inflater;
  std::string_view rest_;
  std::string name_;
  std::unique_ptr<Inflater> inflater_;
};

}  // namespace tost
