// JPEG through libjpeg-turbo. The library reports errors by a callback that must not return, so
// each function that calls it sets a jump target first and keeps nothing on its stack that has a
// destructor; the C++ exception is thrown after the jump, outside the library.
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
// jpeglib.h needs size_t and FILE declared before it.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "tost/base/error.h"
#include "tost/io/image_codecs.h"

namespace tost {
namespace {

// A progressive file can repeat scans without end; honest encoders use about 10.
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

// Warnings about files of correct encoders that change no pixel. Extra bytes before a marker of the
// header come from a wrong length field. After the first scan they are pixels that were not read,
// because the decoder lost its place in damaged data.
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

// After a warning (level -1) the library continues with pixels that it made up.
void on_message(j_common_ptr info, int level) {
  if (level < 0 && !(info->is_decompressor && is_harmless(info))) on_error(info);
}

void on_scan(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans) {
    leave(info, "more than 500 scans");
  }
}

// The source is a block of memory: asking for more means that the file ends early.
boolean on_empty(j_decompress_ptr info) {
  leave(reinterpret_cast<j_common_ptr>(info), "the file ends early");
}

void on_skip(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  if (static_cast<size_t>(count) > info->src->bytes_in_buffer) on_empty(info);
  info->src->next_input_byte += count;
  info->src->bytes_in_buffer -= static_cast<size_t>(count);
}

void set_error_handlers(JpegErrors& errors) {
  errors.message[0] = 0;
  jpeg_std_error(&errors.base);
  errors.base.error_exit = on_error;
  errors.base.output_message = [](j_common_ptr) {};
  errors.base.emit_message = on_message;
}

// Adobe writes CMYK inverted: stored k and c mean 255 - ink. The product is rounded as v / 255.
uint8_t ink_to_light(int stored_colour, int stored_black) {
  const int product = (255 - stored_colour) * stored_black + 128;
  const int light = stored_black - ((product + (product >> 8)) >> 8);
  return static_cast<uint8_t>(light < 0 ? 0 : light);
}

class JpegDecoder {
 public:
  explicit JpegDecoder(std::string_view bytes) {
    set_error_handlers(errors_);
    info_.err = &errors_.base;
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

  // Sides become 1 / reduction of the file's, rounded up.
  void reduce(int64_t reduction) {
    info_.scale_num = 1;
    info_.scale_denom = static_cast<unsigned>(reduction);
  }

  // Rows are appended as they come, so that a false claim of size costs only what the file fills.
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
  // Once the rows are read.
  int64_t read_width() const { return info_.output_width; }
  int64_t read_height() const { return info_.output_height; }
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

class JpegEncoder {
 public:
  JpegEncoder() {
    set_error_handlers(errors_);
    info_.err = &errors_.base;
    jpeg_create_compress(&info_);
  }
  ~JpegEncoder() {
    jpeg_destroy_compress(&info_);
    std::free(buffer_);
  }
  JpegEncoder(const JpegEncoder&) = delete;
  JpegEncoder& operator=(const JpegEncoder&) = delete;

  bool encode(const Image& image, int quality) {
    if (setjmp(errors_.jump)) return false;
    jpeg_mem_dest(&info_, &buffer_, &size_);
    info_.image_width = static_cast<JDIMENSION>(image.width);
    info_.image_height = static_cast<JDIMENSION>(image.height);
    info_.input_components = static_cast<int>(image.channels);
    info_.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&info_);
    jpeg_set_quality(&info_, quality, TRUE);
    jpeg_start_compress(&info_, TRUE);
    while (info_.next_scanline < info_.image_height) {
      auto* row = const_cast<JSAMPROW>(image.row(info_.next_scanline));
      jpeg_write_scanlines(&info_, &row, 1);
    }
    jpeg_finish_compress(&info_);
    return true;
  }
  std::string bytes() const { return {reinterpret_cast<const char*>(buffer_), size_}; }
  const char* message() const { return errors_.message; }

 private:
  JpegErrors errors_{};
  jpeg_compress_struct info_{};
  unsigned char* buffer_ = nullptr;
  unsigned long size_ = 0;
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
  // Every scan begins with this marker, which coded data cannot hold.
  constexpr std::string_view kScan = "\xFF\xDA";
  int64_t scans = 0;
  for (size_t at = bytes.find(kScan); at != bytes.npos; at = bytes.find(kScan, at + 2)) ++scans;
  return pixels * scans;
}

ReducedImage decode_jpeg(std::string_view bytes, std::string_view name, ChooseReduction choose,
                         const ImageLimits& limits) {
  JpegDecoder decoder(bytes);
  read_size(decoder, name, limits);
  ReducedImage result{{}, decoder.width(), decoder.height()};
  const int64_t reduction = choose(result.width, result.height);
  if (reduction != 1 && reduction != 2 && reduction != 4 && reduction != 8) {
    fail_usage("JPEGs are reduced by 1, 2, 4 or 8, not by ", reduction, ".");
  }
  decoder.reduce(reduction);
  Image& image = result.image;
  image.channels = decoder.channels();
  const auto reduced = [&](int64_t side) { return (side + reduction - 1) / reduction; };
  image.pixels.reserve(
      static_cast<size_t>(reduced(result.width) * reduced(result.height) * image.channels));
  std::vector<uint8_t> row;
  if (!decoder.read_rows(row, image.pixels)) fail_damaged(decoder, name);
  image.width = decoder.read_width();
  image.height = decoder.read_height();
  return result;
}

std::string encode_jpeg(const Image& image, int quality) {
  if (image.width < 1 || image.height < 1 || (image.channels != 1 && image.channels != 3)) {
    fail_usage("A JPEG needs at least one pixel and 1 or 3 channels, not ", image.width, "x",
               image.height, "x", image.channels, ".");
  }
  if (quality < 1 || quality > 100) fail_usage("JPEG quality is 1 to 100, not ", quality, ".");
  JpegEncoder encoder;
  if (!encoder.encode(image, quality)) fail_usage("Cannot write a JPEG: ", encoder.message(), ".");
  return encoder.bytes();
}

}  // namespace tost
