// The picture operations of colour jitter and RandAugment. Results agree with Pillow's
// ImageEnhance, ImageOps and Image.transform within one grey level. Size and channels stay. Free of
// torch.
#pragma once

#include <array>
#include <vector>

#include "tost/io/resize.h"

namespace tost {

Image flip_horizontal(const Image& image);

// A factor of 1 changes nothing; 0 gives a black / mean grey / greyscale / smoothed picture;
// factors above 1 exaggerate.
Image adjust_brightness(const Image& image, double factor);
Image adjust_contrast(const Image& image, double factor);
Image adjust_color(const Image& image, double factor);  // no change of grey pictures
Image adjust_sharpness(const Image& image, double factor);

Image auto_contrast(const Image& image);  // stretches each channel to 0..255
Image equalize(const Image& image);       // flattens each channel's histogram
Image invert(const Image& image);
Image posterize(const Image& image, int bits);       // keeps the highest `bits` bits, 0..8
Image solarize(const Image& image, int threshold);   // inverts values at or above
Image solarize_add(const Image& image, int addend);  // adds to values below 128

// Reads the output pixel with centre (x, y) at (m0 x + m1 y + m2, m3 x + m4 y + m5) of the input,
// bilinear or bicubic without antialiasing. Pixels outside of the input are `fill`, one value for
// each channel.
Image affine(const Image& image, const std::array<double, 6>& m, Filter filter,
             const std::vector<uint8_t>& fill);
Image rotate(const Image& image, double degrees, Filter filter,
             const std::vector<uint8_t>& fill);  // counter-clockwise

}  // namespace tost
