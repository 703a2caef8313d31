// PNG through libpng. Functions that call the library set a jump target and have no local object
// with a destructor, as in jpeg.cc. Exceptions are thrown after the jump.
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "tost/base/error.h"
#include "tost/io/image.h"

namespace tost {
namespace {

// The largest expansion by deflate; a header that claims more means a truncated file.
constexpr int64_t kMaxExpansion = 1032;

struct PngErrors {
  char message[160];
};

[[noreturn]] void on_error(png_structp png, png_const_charp text) {
  auto* errors = static_cast<PngErrors*>(png_get_error_ptr(png));
  std::snprintf(errors->message, sizeof(errors->message), "%s", text);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

struct PngBytes {
  const char* next;
  size_t left;
};

void on_read(png_structp png, png_bytep to, size_t count) {
  auto* source = static_cast<PngBytes*>(png_get_io_ptr(png));
  if (count > source->left) png_error(png, "the file ends early");
  std::memcpy(to, source->next, count);
  source->next += count;
  source->left -= count;
}

class PngDecoder {
 public:
  explicit PngDecoder(std::string_view bytes) : source_{bytes.data(), bytes.size()} {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &errors_, on_error, on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, &info_, nullptr);
      fail_data("Libpng could not start: out of memory.");
    }
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  bool read_header(const ImageLimits& limits) {
    if (setjmp(png_jmpbuf(png_))) return false;
    png_set_read_fn(png_, &source_, on_read);
    // Disables the library's limits, because image.cc checks limits with better messages. Skips
    // text chunks.
    const auto side = static_cast<png_uint_32>(limits.max_side);
    png_set_user_limits(png_, side, side);
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png_, info_);
    raw_bytes_ = static_cast<int64_t>(png_get_rowbytes(png_, info_)) * height();
    // Makes the library convert to 8-bit grey or RGB.
    const int type = png_get_color_type(png_, info_);
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
    png_set_strip_16(png_);
    png_set_strip_alpha(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }

  bool read_rows(Image& image) {
    if (setjmp(png_jmpbuf(png_))) return false;
    for (int pass = 0; pass < passes_; ++pass) {
      for (int64_t y = 0; y < image.height; ++y) png_read_row(png_, image.row(y), nullptr);
    }
    return true;
  }

  int64_t width() const { return png_get_image_width(png_, info_); }
  int64_t height() const { return png_get_image_height(png_, info_); }
  int64_t channels() const { return png_get_channels(png_, info_); }
  int64_t row_bytes() const { return static_cast<int64_t>(png_get_rowbytes(png_, info_)); }
  int64_t raw_bytes() const { return raw_bytes_; }
  const char* message() const { return errors_.message; }

 private:
  PngErrors errors_{};
  PngBytes source_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
  int64_t raw_bytes_ = 0;
};

// Reads width and height from the IHDR chunk, so that messages can state them.
void check_header(std::string_view bytes, std::string_view name, const ImageLimits& limits) {
  if (bytes.size() < 24 || bytes.substr(12, 4) != "IHDR") return;  // libpng will report the error
  const auto side = [&](size_t at) {
    int64_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value * 256 + static_cast<uint8_t>(bytes[at + i]);
    return value;
  };
  check_image_size(side(16), side(20), name, limits);
}

[[noreturn]] void fail_damaged(const char* reason, std::string_view name) {
  fail_data("Image '", name, "' is a damaged or truncated PNG (", reason,
            "); replace or remove it.");
}

void read_size(PngDecoder& decoder, std::string_view bytes, std::string_view name,
               const ImageLimits& limits) {
  check_header(bytes, name, limits);
  if (!decoder.read_header(limits)) fail_damaged(decoder.message(), name);
  check_image_size(decoder.width(), decoder.height(), name, limits);
}

}  // namespace

int64_t png_work(std::string_view bytes, std::string_view name, const ImageLimits& limits) {
  PngDecoder decoder(bytes);
  read_size(decoder, bytes, name, limits);
  return decoder.width() * decoder.height();
}

Image decode_png(std::string_view bytes, std::string_view name, const ImageLimits& limits) {
  PngDecoder decoder(bytes);
  read_size(decoder, bytes, name, limits);
  const auto damaged = [&](const char* reason) { fail_damaged(reason, name); };
  if (decoder.raw_bytes() / kMaxExpansion > static_cast<int64_t>(bytes.size())) {
    damaged("too few bytes for its size");
  }
  Image image(decoder.width(), decoder.height(), decoder.channels());
  if (decoder.row_bytes() != image.width * image.channels ||
      (image.channels != 1 && image.channels != 3)) {
    damaged("an unknown pixel layout");
  }
  if (!decoder.read_rows(image)) damaged(decoder.message());
  return image;
}

std::string encode_png(const Image& image) {
  if (image.width < 1 || image.height < 1 || (image.channels != 1 && image.channels != 3)) {
    fail_usage("A PNG needs at least one pixel and 1 or 3 channels, not ", image.width, "x",
               image.height, "x", image.channels, ".");
  }
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(header), '\0');
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&header, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr) ==
      0) {
    fail_usage("Cannot write a PNG: ", header.message, ".");
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace tost
