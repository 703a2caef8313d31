// A small program for the tests in Python: applies one picture function to a file, or draws a data
// set's contact sheet.
#include <cstdlib>
#include <iostream>

#include "tost/base/error.h"
#include "tost/data/dataset.h"
#include "tost/data/image_ops.h"

namespace {

using namespace tost;

double number(const char* text) {
  return std::strtod(text, nullptr);
}
int64_t integer(const char* text) {
  return std::strtoll(text, nullptr, 10);
}

// OP IN OUT [NUMBERS]
Image apply(const std::string& op, const Image& in, char** rest) {
  const auto filter = [&](const char* name) { return filter_from_name(name); };
  if (op == "decode") return in;
  if (op == "grey") return to_channels(in, 1);
  if (op == "resize") {
    const Box box{integer(rest[3]), integer(rest[4]), integer(rest[5]), integer(rest[6])};
    return resize(in, box, integer(rest[1]), integer(rest[2]), filter(rest[0]));
  }
  if (op == "brightness") return adjust_brightness(in, number(rest[0]));
  if (op == "contrast") return adjust_contrast(in, number(rest[0]));
  if (op == "color") return adjust_color(in, number(rest[0]));
  if (op == "sharpness") return adjust_sharpness(in, number(rest[0]));
  if (op == "autocontrast") return auto_contrast(in);
  if (op == "equalize") return equalize(in);
  if (op == "invert") return invert(in);
  if (op == "posterize") return posterize(in, static_cast<int>(integer(rest[0])));
  if (op == "solarize") return solarize(in, static_cast<int>(integer(rest[0])));
  if (op == "rotate") return rotate(in, number(rest[1]), filter(rest[0]), {9, 99, 199});
  if (op == "shear") {
    return affine(in, {1, number(rest[1]), 0, 0, 1, 0}, filter(rest[0]), {9, 99, 199});
  }
  if (op == "translate") {
    return affine(in, {1, 0, number(rest[1]), 0, 1, 0}, filter(rest[0]), {9, 99, 199});
  }
  fail_usage("Unknown operation '", op, "'.");
}

void paste(const Image& from, int64_t x, int64_t y, int64_t zoom, Image& to) {
  for (int64_t py = 0; py < from.height * zoom; ++py) {
    for (int64_t px = 0; px < from.width * zoom; ++px) {
      const uint8_t* pixel = from.row(py / zoom) + px / zoom * from.channels;
      for (int64_t c = 0; c < 3; ++c) {
        to.row(y + py)[(x + px) * 3 + c] = pixel[from.channels == 3 ? c : 0];
      }
    }
  }
}

// sheet PATH OUT SIDE COLUMNS ROWS ZOOM: pictures of equal size, with their masks if there are any.
void sheet(char** rest) {
  DataSpec spec;
  spec.path = rest[0];
  spec.side = integer(rest[2]);
  const auto data = open_image_dataset(spec, "test");
  const int64_t columns = integer(rest[3]), rows = integer(rest[4]), zoom = integer(rest[5]);
  const int64_t cell = data->side() * zoom + 4;
  Image out(columns * cell, rows * cell, 3);
  for (int64_t i = 0; i < columns * rows; ++i) {
    const bool mask = data->has_mask() && i / columns % 2 == 1;
    const int64_t index = data->has_mask() ? i / columns / 2 * columns + i % columns : i;
    Image picture = mask ? data->mask(index) : data->image(index);
    if (mask)
      for (uint8_t& value : picture.pixels) value = static_cast<uint8_t>(value * 23);
    paste(picture, i % columns * cell + 2, i / columns * cell + 2, zoom, out);
    if (!mask) std::cout << data->classes()[static_cast<size_t>(data->label(index))] << ' ';
  }
  write_png(rest[1], out);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) return 2;
  const std::string op = argv[1];
  if (op == "sheet") {
    sheet(argv + 2);
  } else {
    write_png(argv[3], apply(op, read_image(argv[2]), argv + 4));
  }
  return 0;
} catch (const tost::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
