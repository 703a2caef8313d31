#include "tost/io/image.h"

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/base/file.h"

namespace tost {
namespace {

constexpr std::string_view kJpegStart = "\xFF\xD8\xFF";
constexpr std::string_view kPngStart = "\x89PNG\r\n\x1A\n";

Image grey_to_rgb(const Image& grey) {
  Image rgb(grey.width, grey.height, 3);
  uint8_t* to = rgb.pixels.data();
  for (uint8_t value : grey.pixels) {
    to[0] = to[1] = to[2] = value;
    to += 3;
  }
  return rgb;
}

Image rgb_to_grey(const Image& rgb) {
  Image grey(rgb.width, rgb.height, 1);
  const uint8_t* from = rgb.pixels.data();
  for (uint8_t& value : grey.pixels) {
    // Weights the channels by 0.299, 0.587 and 0.114 in 16-bit fixed point, rounded.
    value =
        static_cast<uint8_t>((from[0] * 19595 + from[1] * 38470 + from[2] * 7471 + 32768) >> 16);
    from += 3;
  }
  return grey;
}

[[noreturn]] void fail_unknown(std::string_view bytes, std::string_view name) {
  if (bytes.empty()) fail_data("Image '", name, "' is an empty file; remove or replace it.");
  fail_data("File '", name,
            "' is not a JPEG or PNG image (by its first bytes); convert or remove it.");
}

}  // namespace

Image::Image(int64_t w, int64_t h, int64_t c) : width(w), height(h), channels(c) {
  const int64_t size = checked_mul(checked_mul(w, h, "an image's width x height"), c,
                                   "an image's width x height x channels");
  pixels.resize(static_cast<size_t>(size));
}

void check_image_size(int64_t width, int64_t height, std::string_view name,
                      const ImageLimits& limits) {
  if (width < 1 || height < 1) {
    fail_data("Image '", name, "' has ", width, "x", height, " pixels: it is empty; remove it.");
  }
  if (width > limits.max_side || height > limits.max_side ||
      checked_mul(width, height, "an image's width x height") > limits.max_pixels) {
    fail_data("Image '", name, "' claims ", width, "x", height, " pixels, above the limit of ",
              limits.max_pixels, " pixels and ", limits.max_side,
              " a side; shrink it before using it here.");
  }
}

bool looks_like_image(std::string_view bytes) {
  return bytes.starts_with(kJpegStart) || bytes.starts_with(kPngStart);
}

bool is_image_file(const std::string& path) {
  return looks_like_image(read_beginning(path, kPngStart.size()));
}

Image decode_image(std::string_view bytes, std::string_view name, const ImageLimits& limits) {
  if (bytes.starts_with(kJpegStart)) return decode_jpeg(bytes, name, limits);
  if (bytes.starts_with(kPngStart)) return decode_png(bytes, name, limits);
  fail_unknown(bytes, name);
}

int64_t decoding_work(std::string_view bytes, std::string_view name, const ImageLimits& limits) {
  if (bytes.starts_with(kJpegStart)) return jpeg_work(bytes, name, limits);
  if (bytes.starts_with(kPngStart)) return png_work(bytes, name, limits);
  fail_unknown(bytes, name);
}

Image read_image(const std::string& path, const ImageLimits& limits) {
  return decode_image(read_file(path, limits.max_file_bytes), path, limits);
}

Image to_channels(Image image, int64_t channels) {
  if (image.channels == channels) return image;
  if (image.channels == 1 && channels == 3) return grey_to_rgb(image);
  if (image.channels == 3 && channels == 1) return rgb_to_grey(image);
  fail_usage("An image of ", image.channels, " channels cannot become one of ", channels,
             "; 1 (grey) and 3 (RGB) are possible.");
}

void write_png(const std::string& path, const Image& image) {
  write_file_atomic(path, encode_png(image));
}

}  // namespace tost
