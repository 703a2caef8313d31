#include "tost/study/plain_jpeg.h"

#include <csetjmp>
#include <cstddef>
#include <cstdio>
// jpeglib.h needs size_t and FILE declared before it.
// clang-format off
#include <jpeglib.h>
// clang-format on

#include "tost/base/error.h"

namespace tost {
namespace {

struct Errors {
  jpeg_error_mgr base;  // first, so that the library's pointer is also ours
  jmp_buf jump;
};

void leave(j_common_ptr info) {
  longjmp(reinterpret_cast<Errors*>(info->err)->jump, 1);
}

// Nothing with a destructor lives here: errors jump out.
bool decode(jpeg_decompress_struct& info, Errors& errors, std::string_view bytes, Image& image) {
  if (setjmp(errors.jump)) return false;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  jpeg_start_decompress(&info);
  if (info.output_components != 3) return false;
  image.width = info.output_width;
  image.height = info.output_height;
  image.channels = 3;
  image.pixels.resize(size_t{3} * info.output_width * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = image.row(info.output_scanline);
    jpeg_read_scanlines(&info, &row, 1);
  }
  return jpeg_finish_decompress(&info);
}

}  // namespace

Image decode_jpeg_plainly(std::string_view bytes) {
  Errors errors{};
  jpeg_decompress_struct info{};
  info.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = leave;
  errors.base.output_message = [](j_common_ptr) {};
  jpeg_create_decompress(&info);
  Image image;
  const bool done = decode(info, errors, bytes, image);
  jpeg_destroy_decompress(&info);
  if (!done) fail_data("libjpeg cannot decode a picture of this measurement.");
  return image;
}

}  // namespace tost
