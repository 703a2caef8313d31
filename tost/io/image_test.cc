#include "tost/io/image.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/testing/shared.h"
#include "tost/base/error.h"
#include "tost/base/random.h"
#include "tost/io/image_test_util.h"
#include "tost/io/jpeg_test_util.h"

namespace tost {
namespace {

using namespace tost::testing;

Image pattern(int64_t width, int64_t height, int64_t channels) {
  Image image(width, height, channels);
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] = static_cast<uint8_t>(i * 7 + i / 31 * 3);
  }
  return image;
}

// The message of the data Error that decoding must throw.
std::string refusal(const std::string& bytes, const ImageLimits& limits = {}) {
  try {
    decode_image(bytes, "some/file", limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_NE(std::string(error.what()).find("some/file"), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "decoded";
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string with_header_size(uint32_t width, uint32_t height) {
  std::string png = encode_png(pattern(4, 4, 3));
  for (size_t i = 0; i < 4; ++i) {
    png[16 + i] = static_cast<char>(width >> (24 - 8 * i));
    png[20 + i] = static_cast<char>(height >> (24 - 8 * i));
  }
  return png;
}

TEST(ImageTest, PngRoundTripIsExact) {
  for (int64_t channels : {1, 3}) {
    for (int64_t width : {1, 2, 31, 64}) {
      const Image image = pattern(width, 65 - width, channels);
      EXPECT_EQ(decode_image(encode_png(image), "x"), image);
    }
  }
}

TEST(ImageTest, JpegRoundTripIsClose) {
  for (int64_t channels : {1, 3}) {
    Image image(40, 24, channels);
    for (size_t i = 0; i < image.pixels.size(); ++i) {
      image.pixels[i] = static_cast<uint8_t>(40 + i / 12 % 150);
    }
    const Image back = decode_image(encode_jpeg(image, 95), "x");
    ASSERT_EQ(back.pixels.size(), image.pixels.size());
    for (size_t i = 0; i < back.pixels.size(); ++i) {
      EXPECT_NEAR(back.pixels[i], image.pixels[i], 16);
    }
  }
  EXPECT_LT(encode_jpeg(pattern(64, 64, 3), 20).size(), encode_jpeg(pattern(64, 64, 3), 95).size());
}

void expect_pixels(const char* hex, int64_t width, int64_t height, int64_t channels,
                   const std::vector<uint8_t>& pixels, int tolerance) {
  const Image image = decode_image(from_hex(hex), "x");
  ASSERT_EQ(image.width, width);
  ASSERT_EQ(image.height, height);
  ASSERT_EQ(image.channels, channels);
  ASSERT_EQ(image.pixels.size(), pixels.size());
  for (size_t i = 0; i < pixels.size(); ++i) {
    EXPECT_NEAR(image.pixels[i], pixels[i], tolerance) << "at " << i;
  }
}

TEST(ImageTest, DecodesAsPillowDoes) {
  expect_pixels(kCmykJpeg, 8, 8, 3, kCmykPixels, 1);
  expect_pixels(kGreyJpeg, 8, 8, 1, kGreyPixels, 1);
  expect_pixels(kAlphaPng, 4, 3, 3, kAlphaPixels, 0);
  expect_pixels(kPalettePng, 4, 3, 3, kPalettePixels, 0);
  expect_pixels(kInterlacedPng, 5, 3, 3, kInterlacedPixels, 0);
}

TEST(ImageTest, SixteenBitsKeepTheirHighByte) {
  expect_pixels(kDeepPng, 3, 2, 1, {0, 0, 1, 1, 128, 255}, 0);
}

TEST(ImageTest, RefusesWhatIsNoImage) {
  EXPECT_TRUE(contains(refusal(""), "empty file"));
  EXPECT_TRUE(contains(refusal("GIF89a and so on"), "not a JPEG or PNG"));
  EXPECT_TRUE(contains(refusal("\xFF\xD8"), "not a JPEG or PNG"));
  EXPECT_TRUE(contains(refusal("\xFF\xD8\xFF nonsense"), "JPEG"));
  EXPECT_TRUE(contains(refusal("\x89PNG\r\n\x1A\n"), "PNG"));
}

TEST(ImageTest, RefusesEveryTruncation) {
  const Image image = pattern(24, 20, 3);
  const std::string jpeg = encode_jpeg(image, 80);
  for (size_t size = 3; size < jpeg.size(); ++size) refusal(jpeg.substr(0, size));
  // Without the closing chunk (12 bytes) and the checksums before it all pixels are still there.
  const std::string png = encode_png(image);
  for (size_t size = 8; size + 24 < png.size(); ++size) refusal(png.substr(0, size));
}

TEST(ImageTest, SurvivesEveryDamagedByte) {
  for (const std::string& file : {encode_jpeg(pattern(17, 9, 3), 70), encode_png(pattern(17, 9, 3)),
                                  from_hex(kInterlacedPng), from_hex(kCmykJpeg)}) {
    for (size_t at = 0; at < file.size(); ++at) {
      for (int bit : {0, 3, 7}) {
        std::string damaged = file;
        damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
        try {
          const Image image = decode_image(damaged, "x", {4096, 1 << 20, 1 << 20});
          EXPECT_EQ(static_cast<int64_t>(image.pixels.size()),
                    image.width * image.height * image.channels);
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::kData);
        }
      }
    }
  }
}

// Of every chunk the checksum is compared: no damage changes a pixel unseen.
TEST(ImageTest, DamagedPngsAreRefusedOrUnchanged) {
  for (const std::string& file : {encode_png(pattern(17, 9, 3)), from_hex(kInterlacedPng),
                                  from_hex(kPalettePng), from_hex(kAlphaPng)}) {
    const Image whole = decode_image(file, "x");
    int refused = 0;
    const auto check = [&](const std::string& damaged) {
      try {
        EXPECT_EQ(decode_image(damaged, "x"), whole);
      } catch (const Error&) {
        ++refused;
      }
    };
    for (size_t at = 0; at < file.size(); ++at) {
      check(file.substr(0, at));
      for (int bit = 0; bit < 8; ++bit) {
        std::string damaged = file;
        damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
        check(damaged);
      }
    }
    EXPECT_GT(refused, 9 * int(file.size()) / 2);
  }
}

// Photograph-like: smooth with some noise.
Image noisy_image(int64_t width, int64_t height) {
  Image image(width, height, 3);
  Random random(5);
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    const auto x = double(i / 3 % size_t(width)), y = double(i / 3) / double(width);
    const double wave = 128 + 80 * std::sin(0.05 * x) * std::cos(0.04 * y);
    image.pixels[i] = static_cast<uint8_t>(wave + double(random.below(30)));
  }
  return image;
}

// Where the scan ends too early, or with bytes left over, the decoder has lost its place. JPEG
// holds no checksums: damage after which as many blocks are found as before stays unseen.
TEST(ImageTest, RefusesJpegsWithDamagedScans) {
  const std::string jpeg = encode_jpeg(noisy_image(300, 200), 85);
  const size_t scan = jpeg.find("\xFF\xDA") + 14;
  Random random(3);
  int refused = 0;
  const int places = 100;
  const size_t damage = 200;
  for (size_t i = 0; i < places; ++i) {
    std::string damaged = jpeg;
    const size_t at = scan + i * (jpeg.size() - 2 - damage - scan) / places;
    for (size_t k = 0; k < damage; ++k) damaged[at + k] = static_cast<char>(random.below(256));
    try {
      decode_image(damaged, "some/file");
    } catch (const Error& error) {
      ++refused;
      EXPECT_TRUE(contains(error.what(), "Image 'some/file' is a damaged or truncated JPEG"));
    }
  }
  EXPECT_GE(refused, 75);
}

TEST(ImageTest, RefusesWhatLibjpegWarnsOf) {
  const std::string jpeg = encode_jpeg(noisy_image(120, 80), 85);
  const size_t scan = jpeg.find("\xFF\xDA") + 14, end = jpeg.size() - 2;
  const std::string closing = jpeg.substr(end);
  const std::string half = jpeg.substr(0, (scan + end) / 2);
  EXPECT_TRUE(contains(refusal(half + closing), "premature end of data segment"));
  EXPECT_TRUE(contains(refusal(jpeg.substr(0, end) + "left over" + closing), "extraneous bytes"));
  EXPECT_TRUE(contains(refusal(half + "\xFF\xD3" + jpeg.substr(half.size())), "JPEG"));
}

TEST(ImageTest, TakesWhatNoPixelDependsOn) {
  const std::string jpeg = encode_jpeg(noisy_image(40, 30), 85);
  const Image whole = decode_image(jpeg, "x");
  const size_t tables = jpeg.find("\xFF\xDB"), scan = jpeg.find("\xFF\xDA");
  std::string junk = jpeg;
  junk.insert(tables, "a longer segment than it says");
  EXPECT_EQ(decode_image(junk, "x"), whole);
  std::string revision = jpeg;
  revision[jpeg.find("JFIF") + 5] = 7;
  EXPECT_EQ(decode_image(revision, "x"), whole);
  std::string zeros = jpeg;  // the spectral selection, which some baseline encoders leave out
  zeros[scan + 12] = 0;
  EXPECT_EQ(decode_image(zeros, "x"), whole);
  EXPECT_EQ(decode_image(jpeg + "after the end", "x"), whole);
}

TEST(ImageTest, RefusesSizesByTheHeader) {
  EXPECT_TRUE(contains(refusal(with_header_size(0, 4)), "0x4"));
  EXPECT_TRUE(contains(refusal(with_header_size(20'000, 20'000)), "20000x20000"));
  EXPECT_TRUE(contains(refusal(with_header_size(0x7FFFFFFF, 0x7FFFFFFF)), "above the limit"));
  EXPECT_TRUE(contains(refusal(encode_jpeg(pattern(30, 30, 3)), {29, 1000, 1 << 20}), "30x30"));
  EXPECT_TRUE(contains(refusal(encode_jpeg(pattern(30, 30, 3)), {100, 899, 1 << 20}), "30x30"));
  EXPECT_EQ(decode_image(encode_jpeg(pattern(30, 30, 3)), "x", {30, 900, 1 << 20}).width, 30);
}

// A grey JPEG of 1,000 x 500 pixels as its headers tell it, with `scans` scans without data.
std::string headers_of_jpeg(char kind, int scans) {
  std::string bytes("\xFF\xD8\xFF", 3);
  bytes += kind;
  bytes += std::string("\x00\x0B\x08\x01\xF4\x03\xE8\x01\x01\x11\x00", 11);
  const std::string scan("\xFF\xDA\x00\x08\x01\x01\x00\x00\x00\x00", 10);
  for (int i = 0; i < scans; ++i) bytes += scan;
  return bytes;
}

TEST(ImageTest, CountsThePixelsToDecodeFromTheHeaders) {
  EXPECT_EQ(decoding_work(encode_png(pattern(30, 20, 3)), "x"), 600);
  EXPECT_EQ(decoding_work(encode_jpeg(pattern(30, 20, 3)), "x"), 600);
  EXPECT_EQ(decoding_work(headers_of_jpeg('\xC2', 7), "x"), 7 * 500'000);
  EXPECT_EQ(decoding_work(headers_of_jpeg('\xC0', 1), "x"), 500'000);
  const auto pixels = [](const std::string& bytes) {
    decoding_work(bytes, "x", {.max_pixels = 499'999});
  };
  EXPECT_THROW(pixels(headers_of_jpeg('\xC2', 7)), Error);
  EXPECT_THROW(pixels("nothing"), Error);
}

TEST(ImageTest, OnePixelWorks) {
  EXPECT_EQ(decode_image(encode_png(pattern(1, 1, 1)), "x").pixels.size(), 1u);
  EXPECT_EQ(decode_image(encode_jpeg(pattern(1, 1, 3)), "x").pixels.size(), 3u);
}

TEST(ImageTest, ConvertsChannels) {
  Image rgb(1, 1, 3);
  rgb.pixels = {200, 100, 50};
  EXPECT_EQ(to_channels(rgb, 1).pixels, std::vector<uint8_t>{124});
  EXPECT_EQ(to_channels(to_channels(rgb, 1), 3).pixels, (std::vector<uint8_t>{124, 124, 124}));
  EXPECT_THROW(to_channels(rgb, 4), Error);
}

TEST(ImageTest, RefusesWhatItCannotWrite) {
  EXPECT_THROW(encode_png(Image(0, 3, 3)), Error);
  EXPECT_THROW(encode_png(Image(3, 3, 2)), Error);
}

TEST(ImageTest, ReadsPhotographs) {
  TOST_SHARED_OR_SKIP(folder, "data/natural-images");
  const Image photo = read_image((folder / "chelsea.png").string());
  EXPECT_EQ(photo.width, 451);
  EXPECT_EQ(photo.height, 300);
  EXPECT_EQ(photo.channels, 3);
  EXPECT_EQ(read_image((folder / "camera.png").string()).channels, 1);
  EXPECT_EQ(read_image((folder / "rocket.jpg").string()).width, 640);
}

}  // namespace
}  // namespace tost
