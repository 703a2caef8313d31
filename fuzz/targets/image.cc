// JPEG and PNG.
#include "tost/io/image.h"

#include "fuzz/targets.h"

namespace tost::fuzz {

void try_image(std::string_view input) {
  or_refuse([&] {
    const Image image = decode_image(input, "fuzz", {.max_side = 4096, .max_pixels = 1 << 18});
    require(image.channels == 1 || image.channels == 3, "grey or RGB");
    require(image.width * image.height <= 1 << 18, "within the limits");
    require(image.pixels.size() == static_cast<size_t>(image.width * image.height * image.channels),
            "as many values as pixels");
    require(looks_like_image(input), "recognised by its start");
  });
}

}  // namespace tost::fuzz
