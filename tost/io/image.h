// Images as bytes, readers of JPEG and PNG files, and a writer of PNG. Free of torch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tost {

// An image of 8-bit pixels, rows from top to bottom: pixels[(y * width + x) * channels + c]. An
// image has 1 channel (grey, masks) or 3 channels (RGB).
struct Image {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;
  std::vector<uint8_t> pixels;

  Image() = default;
  // Makes a black image. Throws a data Error if a side is negative or the size overflows.
  Image(int64_t width, int64_t height, int64_t channels);

  const uint8_t* row(int64_t y) const { return pixels.data() + y * width * channels; }
  uint8_t* row(int64_t y) { return pixels.data() + y * width * channels; }
  bool operator==(const Image&) const = default;
};

// Limits on the sizes that a file claims, checked before allocation.
struct ImageLimits {
  int64_t max_side = 65'535;
  int64_t max_pixels = 64'000'000;
  int64_t max_file_bytes = int64_t{256} << 20;
};

// Decodes a JPEG or PNG, recognised by its first bytes, to one channel (grey) or three (RGB).
// - CMYK and YCCK JPEGs become RGB as in Pillow (Adobe's inverted convention is assumed).
// - PNG palettes are expanded, 16-bit samples keep their high byte, alpha is dropped without
//   blending, gamma is ignored. (Pillow does the same, except that it clips 16-bit grey to 255.)
// - The EXIF orientation is not applied, as in torchvision and timm.
// Throws a data Error naming `name` for bytes that are no image, for an image without pixels or
// larger than `limits` (checked before allocation), and for a damaged or truncated image (never
// half a picture).
Image decode_image(std::string_view bytes, std::string_view name, const ImageLimits& limits = {});
Image read_image(const std::string& path, const ImageLimits& limits = {});

// The number of pixels that decode_image would process, without decoding. The pixels of a
// progressive JPEG count once for each scan. Throws as decode_image.
int64_t decoding_work(std::string_view bytes, std::string_view name,
                      const ImageLimits& limits = {});

// Whether the bytes or the file begin like a picture that decode_image can read.
bool looks_like_image(std::string_view bytes);
bool is_image_file(const std::string& path);

// Converts grey to RGB by repetition, and RGB to grey by the ITU-R 601 luma with Pillow's rounding.
Image to_channels(Image image, int64_t channels);

// Encodes an image of 1 or 3 channels as a PNG file in memory.
std::string encode_png(const Image& image);
// Writes a PNG file; a failure does not change an old file.
void write_png(const std::string& path, const Image& image);

// Throws a data Error for an image that is empty or larger than the limits.
void check_image_size(int64_t width, int64_t height, std::string_view name,
                      const ImageLimits& limits);

// The decoders of each format, which decode_image() and decoding_work() call.
Image decode_jpeg(std::string_view bytes, std::string_view name, const ImageLimits& limits);
int64_t jpeg_work(std::string_view bytes, std::string_view name, const ImageLimits& limits);
int64_t png_work(std::string_view bytes, std::string_view name, const ImageLimits& limits);
Image decode_png(std::string_view bytes, std::string_view name, const ImageLimits& limits);

}  // namespace tost
