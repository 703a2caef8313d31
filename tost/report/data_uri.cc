#include "tost/io/base64.h"
#include "tost/report/page.h"

namespace tost {

std::string png_data_uri(const Image& image) {
  return "data:image/png;base64," + to_base64(encode_png(image));
}

}  // namespace tost
