#include "tost/data/export.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"

namespace tost {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kGap = 2;
constexpr int64_t kMostScale = 64, kMostColumns = 10'000;
constexpr double kMostPixels = 1 << 28;

// A class name as a folder name: no separators, nothing hidden.
std::string folder_name(const std::string& class_name) {
  std::string name = class_name;
  for (char& c : name) {
    if (c == '/' || c == '\0') c = '_';
  }
  return name.empty() || name[0] == '.' ? "_" + name : name;
}

// Masks hold small class numbers; spread over 0...255 they can be distinguished.
Image visible_mask(const Image& mask, int64_t classes) {
  Image out(mask.width, mask.height, 3);
  for (size_t i = 0; i < mask.pixels.size(); ++i) {
    const int64_t value = mask.pixels[i];
    for (size_t c = 0; c < 3; ++c) {
      const int64_t turn = value * (static_cast<int64_t>(c) * 2 + 1) * 83 % 200;
      out.pixels[3 * i + c] =
          value == 0
              ? 0
              : static_cast<uint8_t>(55 + (turn + 200 / std::max<int64_t>(1, classes)) % 201);
    }
  }
  return out;
}

void paste(const Image& from, int64_t left, int64_t top, int64_t scale, Image& onto) {
  for (int64_t y = 0; y < from.height * scale; ++y) {
    for (int64_t x = 0; x < from.width * scale; ++x) {
      const uint8_t* source = from.row(y / scale) + x / scale * from.channels;
      uint8_t* target = onto.row(top + y) + (left + x) * 3;
      for (int64_t c = 0; c < 3; ++c) target[c] = source[from.channels == 3 ? c : 0];
    }
  }
}

void check_between(const char* name, int64_t value, int64_t most) {
  if (value >= 1 && value <= most) return;
  fail_usage(name, " is ", value, " but must lie between 1 and ", most, ".");
}

void check_area(int64_t pictures, int64_t width, int64_t height, const std::string& last) {
  if (double(pictures) * double(width) * double(height) <= kMostPixels) return;
  fail_usage("A sheet holds 2^28 pixels, and ", pictures, " pictures of ", width, " x ", height,
             ", the last one '", last, "', are more; give a smaller --count or --scale.");
}

}  // namespace

std::vector<std::string> export_image_folder(const ImageDataset& dataset, const std::string& out,
                                             const ExportOptions& options) {
  check_new_folder(out);
  if (options.masks && !dataset.has_mask())
    fail_usage("This data set has no masks; leave out --masks.");
  const int64_t total =
      options.count < 0 ? dataset.size() : std::min(options.count, dataset.size());
  std::vector<std::string> written;
  for (int64_t i = 0; i < total; ++i) {
    if (options.stop && options.stop()) break;
    const std::string label = folder_name(dataset.classes()[static_cast<size_t>(dataset.label(i))]);
    char file[32];
    std::snprintf(file, sizeof file, "%06lld.png", static_cast<long long>(i));
    const fs::path path = fs::path(out) / label / file;
    make_directories(path.parent_path());
    write_png(path.string(), dataset.image(i));
    if (options.masks) {
      const fs::path mask = fs::path(out + "-masks") / label / file;
      make_directories(mask.parent_path());
      write_png(mask.string(), dataset.mask(i));
    }
    written.push_back(path.string());
    if (options.progress) options.progress(i + 1, total);
  }
  return written;
}

Image contact_sheet(const ImageDataset& dataset, const std::vector<int64_t>& indices,
                    int64_t columns, int64_t scale, bool masks) {
  check_between("--columns", columns, kMostColumns);
  check_between("--scale", scale, kMostScale);
  if (indices.empty()) fail_usage("A sheet needs at least one picture.");
  std::vector<Image> pictures;
  int64_t width = 0, height = 0;
  for (const int64_t i : indices) {
    pictures.push_back(dataset.image(i));
    if (masks)
      pictures.push_back(
          visible_mask(dataset.mask(i), static_cast<int64_t>(dataset.classes().size())));
    width = std::max(width, pictures.back().width);
    height = std::max(height, pictures.back().height);
    check_area(std::ssize(pictures), width * scale + kGap, height * scale + kGap, dataset.name(i));
  }
  const auto count = static_cast<int64_t>(pictures.size());
  columns = std::min(columns * (masks ? 2 : 1), count);
  const int64_t rows = (count + columns - 1) / columns;
  Image sheet(columns * (width * scale + kGap) + kGap, rows * (height * scale + kGap) + kGap, 3);
  std::fill(sheet.pixels.begin(), sheet.pixels.end(), uint8_t{255});
  for (int64_t i = 0; i < count; ++i) {
    paste(pictures[static_cast<size_t>(i)], kGap + i % columns * (width * scale + kGap),
          kGap + i / columns * (height * scale + kGap), scale, sheet);
  }
  return sheet;
}

}  // namespace tost
