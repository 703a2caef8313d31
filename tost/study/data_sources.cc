#include "tost/study/data_sources.h"

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstddef>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/text.h"
#include "tost/data/dataset.h"
#include "tost/data/folder_dataset.h"
#include "tost/data/shapes.h"
#include "tost/kinds/vision/train_config.h"

// jpeglib.h needs size_t and FILE declared before it.
// clang-format off
#include <jpeglib.h>
// clang-format on

#include "tost/base/error.h"

namespace tost {
namespace {

constexpr int64_t kLeastDrawn = 16, kMostDrawn = 512;  // sides that ShapesDataset draws
constexpr int64_t kChecked = 16;                       // pictures, and those of the first batch
// Mean difference of a whole picture that decoding at half the size or less may make. Drawn edges
// are sharper than those of photographs.
constexpr double kAllowedGreyLevels = 8;

// Textured objects before textured backgrounds, each its own picture; those larger than can be
// drawn are enlarged.
Image draw_picture(const ShapesDataset& shapes, int64_t i, int64_t width, int64_t height) {
  const int64_t longer = std::max(width, height), side = shapes.side();
  const auto part = [&](int64_t of) { return std::max<int64_t>(1, of * side / longer); };
  const Box box{0, 0, longer > side ? part(width) : width, longer > side ? part(height) : height};
  return resize(shapes.image(i), box, width, height, Filter::kBicubic);
}

void draw_folder(const DataBenchOptions& o, const std::filesystem::path& folder, bool jpeg) {
  const int64_t side = std::clamp(std::max(o.width, o.height), kLeastDrawn, kMostDrawn);
  const ShapesDataset shapes(1, "train", side, o.pictures);
  for (int64_t i = 0; i < o.pictures; ++i) {
    const Image picture = draw_picture(shapes, i, o.width, o.height);
    const auto in = folder / cat("class", i % 2);
    make_directories(in);
    const std::string number = std::to_string(1'000'000 + i);
    jpeg ? write_jpeg((in / (number + ".jpg")).string(), picture)
         : write_png((in / (number + ".png")).string(), picture);
  }
}

PictureSource folder_source(const std::string& name, const DataBenchOptions& o,
                            const std::filesystem::path& folder) {
  const bool jpeg = name == "jpeg";
  draw_folder(o, folder / name, jpeg);
  PictureSource source;
  source.name = name;
  source.dataset =
      std::make_shared<FolderDataset>((folder / name).string(), std::vector<std::string>{});
  source.side = o.image_size;
  source.plain = [dataset = source.dataset, jpeg](int64_t i) {
    constexpr int64_t kMostBytes = int64_t{64} << 20;
    const std::string bytes = read_file(dataset->name(i), kMostBytes);
    return jpeg ? decode_jpeg_plainly(bytes) : decode_image(bytes, dataset->name(i));
  };
  return source;
}

PictureSource raw_source(const DataBenchOptions& o) {
  auto drawn = std::make_shared<ShapesDataset>(1, "train", kRawSide, o.pictures);
  MemoryImages images;
  images.format = "idx";
  images.width = images.height = kRawSide;
  images.channels = 3;
  images.classes = drawn->classes();
  for (int64_t i = 0; i < o.pictures; ++i) {
    const Image picture = drawn->image(i);
    images.pixels.insert(images.pixels.end(), picture.pixels.begin(), picture.pixels.end());
    images.labels.push_back(uint8_t(drawn->label(i)));
  }
  return {"raw", std::make_shared<MemoryDataset>(std::move(images)), kRawSide,
          [drawn](int64_t i) { return drawn->image(i); }, false};
}

VisionTrainConfig recipe_config(const std::string& name) {
  std::vector<std::string> names{"eval"};
  for (const auto& recipe : vision_recipes()) {
    if (recipe.name == name) return recipe.make();
    names.push_back(recipe.name);
  }
  fail_usage("--recipe '", name, "' is none of ", join(names, ", "), ".",
             did_you_mean(name, names));
}

// Of the geometric part of the augmentation; the rest would only magnify it.
double reduction_error(const PictureSource& source, const LoaderConfig& config) {
  if (config.augment.crop != "random" || !config.augment.reduce) return 0;
  AugmentConfig whole;
  whole.crop = "random";
  whole.min_scale = config.augment.min_scale;
  whole.interpolation = config.augment.interpolation;
  AugmentConfig reduced = whole;
  whole.reduce = false;
  Preprocess plain;
  plain.size = source.side;
  const Augmenter by_whole(plain, whole), by_reduced(plain, reduced);
  const size_t values = size_t(3 * source.side * source.side);
  std::vector<float> wanted(values), found(values);
  double largest = 0;
  for (int64_t i = 0; i < std::min(kChecked, source.dataset->size()); ++i) {
    Random one(7, uint64_t(i)), other(7, uint64_t(i));
    by_whole(source.plain(i), one, wanted.data());
    PartPlan plan;
    ReducedImage picture = source.dataset->reduced_image(i, [&](int64_t width, int64_t height) {
      plan = by_reduced.plan(width, height, other);
      return plan.reduction;
    });
    by_reduced(std::move(picture), plan, other, found.data());
    double sum = 0;
    for (size_t k = 0; k < values; ++k) sum += std::abs(double(found[k]) - double(wanted[k]));
    largest = std::max(largest, 255 * sum / double(values));
  }
  return largest;
}

// The first batch of evaluation from plain decodes.
torch::Tensor plain_batch(const PictureSource& source, const LoaderConfig& config) {
  const int64_t count = std::min(config.batch_size, source.dataset->size());
  const torch::Tensor images = torch::empty({count, 3, source.side, source.side});
  const Normalizer normalize(config.preprocess);
  for (int64_t i = 0; i < count; ++i) {
    normalize(fit_image(source.plain(i), config.preprocess), images[i].data_ptr<float>());
  }
  return images;
}

}  // namespace

PictureSource make_picture_source(const std::string& name, const DataBenchOptions& options,
                                  const std::filesystem::path& folder) {
  return name == "raw" ? raw_source(options) : folder_source(name, options, folder);
}

LoaderConfig loader_config(const PictureSource& source, const std::string& recipe,
                           const DataBenchOptions& options, int64_t workers) {
  LoaderConfig config;
  config.batch_size = options.batch;
  config.workers = workers;
  config.prefetch = std::max<int64_t>(config.prefetch, 2 * workers);
  config.preprocess.size = source.side;
  const ChannelStats stats = imagenet_stats(3);
  config.preprocess.mean = stats.mean;
  config.preprocess.std = stats.std;
  config.train = recipe != "eval";
  if (!config.train) return config;
  const VisionTrainConfig chosen = recipe_config(recipe);
  config.preprocess.resize = chosen.resize;
  config.augment = augment_config(chosen);
  config.mix = mix_config(chosen);
  return config;
}

double check_pictures(const PictureSource& source, const LoaderConfig& config) {
  for (int64_t i = 0; i < std::min(kChecked, source.dataset->size()); ++i) {
    if (source.dataset->image(i) == source.plain(i)) continue;
    fail_data("'", source.dataset->name(i),
              "' is read as another picture than a plain decode gives; ",
              "nothing was measured. Please report this with the output of `tost info`.");
  }
  ImageLoader loader(source.dataset, config);
  LoaderConfig alone = config;
  alone.workers = 0;
  const torch::Tensor found = loader.next()->images;
  const torch::Tensor wanted = config.train ? ImageLoader(source.dataset, alone).next()->images
                                            : plain_batch(source, config);
  if (!torch::equal(found, wanted)) {
    fail_data("The loader's first batch of ", source.name, " is not that of the plain path; ",
              "nothing was measured. Please report this with the output of `tost info`.");
  }
  const double deviation = reduction_error(source, config);
  if (deviation > kAllowedGreyLevels) {
    fail_data("Pictures decoded reduced are ", deviation, " grey levels from those decoded whole, ",
              "more than ", kAllowedGreyLevels, "; nothing was measured.");
  }
  return deviation;
}

namespace {

struct Errors {
  jpeg_error_mgr base;  // first, so that the library's pointer is also ours
  jmp_buf jump;
};

void leave(j_common_ptr info) {
  longjmp(reinterpret_cast<Errors*>(info->err)->jump, 1);
}

// Nothing with a destructor lives here: errors jump out.
bool decode(jpeg_decompress_struct& info, Errors& errors, std::string_view bytes, Image& image) {
  if (setjmp(errors.jump)) return false;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  jpeg_start_decompress(&info);
  if (info.output_components != 3) return false;
  image.width = info.output_width;
  image.height = info.output_height;
  image.channels = 3;
  image.pixels.resize(size_t{3} * info.output_width * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = image.row(info.output_scanline);
    jpeg_read_scanlines(&info, &row, 1);
  }
  return jpeg_finish_decompress(&info);
}

}  // namespace

Image decode_jpeg_plainly(std::string_view bytes) {
  Errors errors{};
  jpeg_decompress_struct info{};
  info.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = leave;
  errors.base.output_message = [](j_common_ptr) {};
  jpeg_create_decompress(&info);
  Image image;
  const bool done = decode(info, errors, bytes, image);
  jpeg_destroy_decompress(&info);
  if (!done) fail_data("libjpeg cannot decode a picture of this measurement.");
  return image;
}

}  // namespace tost
