// JPEG through libjpeg-turbo. The library reports errors by a callback that must not return. Each
// function that calls the library therefore sets a jump target first, and has no local object with
// a destructor. The exception is thrown after the jump, outside the library.
#include <csetjmp>
#include <cstddef>
#include <cstdio>
// jpeglib.h needs size_t and FILE declared before it.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "tost/base/error.h"
#include "tost/io/image.h"

namespace tost {
namespace {

// Limits the scans of a progressive file, because a file can repeat scans without end; encoders use
// about 10.
constexpr int kMaxScans = 500;

struct JpegErrors {
  jpeg_error_mgr base;  // first, so that the library's pointer is also ours
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave(j_common_ptr info, const char* message) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  std::snprintf(errors->message, sizeof(errors->message), "%s", message);
  longjmp(errors->jump, 1);
}

void on_error(j_common_ptr info) {
  char text[JMSG_LENGTH_MAX];
  info->err->format_message(info, text);
  leave(info, text);
}

// Whether a warning is harmless, because correct files cause it and no pixel changes. Extra bytes
// before a marker of the header are due to a wrong length field. After the first scan such bytes
// are pixels that the decoder lost in damaged data.
bool is_harmless(j_common_ptr info) {
  switch (info->err->msg_code) {
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL:
      return true;
    case JWRN_EXTRANEOUS_DATA:
      return reinterpret_cast<j_decompress_ptr>(info)->input_scan_number == 0;
    default:
      return false;
  }
}

// Ends at a warning (level -1), after which the library would invent pixels.
void on_message(j_common_ptr info, int level) {
  if (level < 0 && !is_harmless(info)) on_error(info);
}

void on_scan(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans) {
    leave(info, "more than 500 scans");
  }
}

// Reports that the file ends early, if libjpeg requests bytes after the last one.
boolean on_empty(j_decompress_ptr info) {
  leave(reinterpret_cast<j_common_ptr>(info), "the file ends early");
}

void on_skip(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  if (static_cast<size_t>(count) > info->src->bytes_in_buffer) on_empty(info);
  info->src->next_input_byte += count;
  info->src->bytes_in_buffer -= static_cast<size_t>(count);
}

// Converts CMYK, which Adobe stores as 255 - ink; divides by 255 with rounding.
uint8_t ink_to_light(int stored_colour, int stored_black) {
  const int product = (255 - stored_colour) * stored_black + 128;
  const int light = stored_black - ((product + (product >> 8)) >> 8);
  return static_cast<uint8_t>(light < 0 ? 0 : light);
}

class JpegDecoder {
 public:
  explicit JpegDecoder(std::string_view bytes) {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = on_error;
    errors_.base.output_message = [](j_common_ptr) {};
    errors_.base.emit_message = on_message;
    jpeg_create_decompress(&info_);
    source_.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
    source_.bytes_in_buffer = bytes.size();
    source_.init_source = [](j_decompress_ptr) {};
    source_.fill_input_buffer = on_empty;
    source_.skip_input_data = on_skip;
    source_.resync_to_restart = jpeg_resync_to_restart;
    source_.term_source = [](j_decompress_ptr) {};
    info_.src = &source_;
    progress_.progress_monitor = on_scan;
    info_.progress = &progress_;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  bool read_header() {
    if (setjmp(errors_.jump)) return false;
    jpeg_read_header(&info_, TRUE);
    const J_COLOR_SPACE space = info_.jpeg_color_space;
    ink_ = space == JCS_CMYK || space == JCS_YCCK;
    info_.out_color_space = ink_ ? JCS_CMYK : space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
    return true;
  }

  // Appends rows as they are decoded, so that a false size takes no more memory than the content.
  bool read_rows(std::vector<uint8_t>& row, std::vector<uint8_t>& pixels) {
    if (setjmp(errors_.jump)) return false;
    jpeg_start_decompress(&info_);
    row.resize(size_t{info_.output_width} * static_cast<size_t>(info_.output_components));
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW target = row.data();
      jpeg_read_scanlines(&info_, &target, 1);
      append(row, pixels);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  int64_t width() const { return info_.image_width; }
  int64_t height() const { return info_.image_height; }
  bool in_scans() { return jpeg_has_multiple_scans(&info_) != 0; }
  int64_t channels() const { return info_.out_color_space == JCS_GRAYSCALE ? 1 : 3; }
  const char* message() const { return errors_.message; }

 private:
  void append(const std::vector<uint8_t>& row, std::vector<uint8_t>& pixels) const {
    if (!ink_) {
      pixels.insert(pixels.end(), row.begin(), row.end());
      return;
    }
    for (size_t i = 0; i + 3 < row.size(); i += 4) {
      for (size_t c = 0; c < 3; ++c) pixels.push_back(ink_to_light(row[i + c], row[i + 3]));
    }
  }

  JpegErrors errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct info_{};
  bool ink_ = false;
};

[[noreturn]] void fail_damaged(const JpegDecoder& decoder, std::string_view name) {
  fail_data("Image '", name, "' is a damaged or truncated JPEG (", decoder.message(),
            "); replace or remove it.");
}

void read_size(JpegDecoder& decoder, std::string_view name, const ImageLimits& limits) {
  if (!decoder.read_header()) fail_damaged(decoder, name);
  check_image_size(decoder.width(), decoder.height(), name, limits);
}

}  // namespace

int64_t jpeg_work(std::string_view bytes, std::string_view name, const ImageLimits& limits) {
  JpegDecoder decoder(bytes);
  read_size(decoder, name, limits);
  const int64_t pixels = decoder.width() * decoder.height();
  if (!decoder.in_scans()) return pixels;
  // The marker of a scan, which coded data cannot contain.
  constexpr std::string_view kScan = "\xFF\xDA";
  int64_t scans = 0;
  for (size_t at = bytes.find(kScan); at != bytes.npos; at = bytes.find(kScan, at + 2)) ++scans;
  return pixels * scans;
}

Image decode_jpeg(std::string_view bytes, std::string_view name, const ImageLimits& limits) {
  JpegDecoder decoder(bytes);
  read_size(decoder, name, limits);
  Image image;
  image.width = decoder.width();
  image.height = decoder.height();
  image.channels = decoder.channels();
  image.pixels.reserve(static_cast<size_t>(image.width * image.height * image.channels));
  std::vector<uint8_t> row;
  if (!decoder.read_rows(row, image.pixels)) fail_damaged(decoder, name);
  return image;
}

}  // namespace tost
