// Pictures of two classes, stripes that lie or stand, as many as the file stripes.txt says.
#include <charconv>

#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/data/dataset.h"

namespace tost {
namespace {

class StripesDataset : public ImageDataset {
 public:
  explicit StripesDataset(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  const std::vector<std::string>& classes() const override {
    static const std::vector<std::string> names{"lie", "stand"};
    return names;
  }
  int64_t label(int64_t i) const override { return i % 2; }
  Image image(int64_t i) const override {
    Image image(16, 16, 1);
    for (int64_t y = 0; y < 16; ++y) {
      for (int64_t x = 0; x < 16; ++x) {
        image.pixels[size_t(16 * y + x)] = uint8_t(((i % 2 ? x : y) + i / 2) % 4 < 2 ? 255 : 0);
      }
    }
    return image;
  }
  std::string name(int64_t i) const override { return std::to_string(i); }
  std::string format() const override { return "stripes"; }
  int64_t channels() const override { return 1; }
  int64_t side() const override { return 16; }

 private:
  int64_t size_;
};

}  // namespace

bool has_stripes(const std::string& directory, const std::string&) {
  return is_plain_file(std::filesystem::path(directory) / "stripes.txt");
}

std::unique_ptr<ImageDataset> open_stripes(const std::string& directory) {
  const std::string text = read_file(std::filesystem::path(directory) / "stripes.txt", 100);
  int64_t size = 0;
  std::from_chars(text.data(), text.data() + text.size(), size);
  return std::make_unique<StripesDataset>(size);
}

}  // namespace tost
