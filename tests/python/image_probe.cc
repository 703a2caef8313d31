// A program for the tests in Python that applies one picture function to a file.
#include <cstdlib>
#include <iostream>

#include "tost/base/error.h"
#include "tost/io/image_ops.h"

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

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) return 2;
  const std::string op = argv[1];
  write_png(argv[3], apply(op, read_image(argv[2]), argv + 4));
  return 0;
} catch (const tost::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
