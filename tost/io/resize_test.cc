#include <gtest/gtest.h>

#include <utility>

#include "tost/base/error.h"
#include "tost/io/preprocess.h"

namespace tost {
namespace {

// 12 x 9, grey: (37 x + 91 y + 13 x y) mod 256. The numbers below are Pillow 13's.
Image pattern() {
  Image image(12, 9, 1);
  for (int64_t y = 0; y < 9; ++y) {
    for (int64_t x = 0; x < 12; ++x) {
      image.row(y)[x] = static_cast<uint8_t>(x * 37 + y * 91 + x * y * 13);
    }
  }
  return image;
}

using Bytes = std::vector<uint8_t>;

TEST(ResizeTest, BilinearEqualsPillow) {
  EXPECT_EQ(resize(pattern(), 5, 4, Filter::kBilinear).pixels,
            (Bytes{107, 138, 136, 121, 103, 125, 147, 135, 133, 104,
                   116, 150, 136, 148, 123, 157, 154, 148, 151, 162}));
  // Wider and lower: the columns go first.
  EXPECT_EQ(
      resize(pattern(), 16, 3, Filter::kBilinear).pixels,
      (Bytes{82,  115, 131, 131, 171, 131, 123, 155, 146, 119, 123, 151, 118, 86,  90,  124,
             108, 128, 120, 98,  165, 160, 142, 127, 130, 133, 135, 138, 141, 144, 114, 63,
             134, 152, 150, 136, 181, 147, 144, 174, 123, 153, 163, 144, 165, 147, 145, 163}));
}

TEST(ResizeTest, BicubicEqualsPillow) {
  EXPECT_EQ(resize(pattern(), 5, 4, Filter::kBicubic).pixels,
            (Bytes{103, 139, 140, 117, 102, 130, 148, 133, 138, 103,
                   108, 150, 138, 149, 118, 161, 153, 146, 153, 165}));
  EXPECT_EQ(
      resize(pattern(), 16, 3, Filter::kBicubic).pixels,
      (Bytes{77,  118, 134, 124, 170, 127, 121, 162, 150, 110, 113, 149, 123, 78,  85,  131,
             106, 130, 119, 95,  177, 167, 139, 126, 129, 131, 138, 145, 141, 149, 112, 52,
             135, 154, 149, 130, 181, 141, 140, 175, 117, 154, 167, 140, 163, 146, 145, 163}));
}

TEST(ResizeTest, PartEqualsPillowsCropAndResize) {
  EXPECT_EQ(resize(pattern(), {2, 1, 7, 6}, 4, 4, Filter::kBicubic).pixels,
            (Bytes{162, 124, 119, 191, 144, 149, 145, 96, 129, 144, 116, 150, 112, 175, 130, 161}));
}

TEST(ResizeTest, KeepsConstantsAndCopies) {
  Image image(23, 11, 3);
  std::fill(image.pixels.begin(), image.pixels.end(), uint8_t{201});
  for (const Filter filter : {Filter::kBilinear, Filter::kBicubic}) {
    for (const int64_t side : {1, 5, 23, 200}) {
      for (uint8_t value : resize(image, side, side / 2 + 1, filter).pixels) EXPECT_EQ(value, 201);
    }
    EXPECT_EQ(resize(pattern(), 12, 9, filter), pattern());
  }
}

TEST(ResizeTest, CropTakesThePart) {
  const Image part = crop(pattern(), {3, 2, 4, 5});
  for (int64_t y = 0; y < 5; ++y) {
    for (int64_t x = 0; x < 4; ++x) EXPECT_EQ(part.row(y)[x], pattern().row(y + 2)[x + 3]);
  }
  for (const Box& box : {Box{-1, 0, 3, 3}, Box{0, 0, 13, 9}, Box{10, 0, 3, 3}, Box{0, 0, 0, 3},
                         Box{INT64_MAX, 0, 3, 3}}) {
    EXPECT_THROW(crop(pattern(), box), Error);
  }
}

// A part alone has the bits it has in the whole, whichever pass comes first or is left out.
TEST(ResizeTest, PartOfTheResultIsTheWholesToTheBit) {
  const int64_t sides[] = {1, 2, 5, 9, 12, 31, 60};
  for (const Filter filter : {Filter::kBilinear, Filter::kBicubic}) {
    for (const int64_t width : sides) {
      for (const int64_t height : sides) {
        const Image whole = resize(pattern(), width, height, filter);
        for (const Box& part :
             {Box{0, 0, width, height}, Box{width / 2, height / 3, width - width / 2, 1},
              Box{width / 3, height / 4, 1, (height + 1) / 2}, Box{width - 1, height - 1, 1, 1}}) {
          EXPECT_EQ(resize_part(pattern(), width, height, part, filter), crop(whole, part))
              << width << "x" << height << ": " << part.x << ", " << part.y;
        }
      }
    }
  }
  EXPECT_THROW(resize_part(pattern(), 5, 5, {0, 0, 6, 5}, Filter::kBicubic), Error);
  EXPECT_THROW(resize_part(Image(0, 3, 1), 5, 5, {0, 0, 5, 5}, Filter::kBicubic), Error);
}

TEST(ResizeTest, PartOfAResultTooLargeToMake) {
  for (const auto& [width, height] : {std::pair<int64_t, int64_t>{1, 65'535}, {65'535, 1}}) {
    const Image line(width, height, 1);
    const int64_t far = 5'000'000'000;  // x 80,000: more than any address space
    const Image part = width == 1
                           ? resize_part(line, 80'000, far, {9, far - 9, 3, 2}, Filter::kBicubic)
                           : resize_part(line, far, 80'000, {far - 9, 9, 3, 2}, Filter::kBicubic);
    EXPECT_EQ(part, Image(3, 2, 1));
  }
}

TEST(ResizeTest, NamesAndRefusals) {
  EXPECT_EQ(filter_from_name("bicubic"), Filter::kBicubic);
  try {
    filter_from_name("bicubik");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'bicubic'"), std::string::npos) << error.what();
  }
  EXPECT_THROW(resize(pattern(), 0, 4, Filter::kBilinear), Error);
}

}  // namespace
}  // namespace tost
