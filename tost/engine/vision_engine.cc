#include "tost/engine/vision_engine.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/engine/threads.h"
#include "tost/kernels/attend_rows.h"
#include "tost/kernels/row_ops.h"

namespace tost {
namespace {

// The class token's way: class attention over the patch tokens, and the head.
// For all pictures of a pass at once: these products have one row a picture and are bound by
// reading their weights.
class ClassPass {
 public:
  ClassPass(const VisionConfig& config, const VisionWeights& weights, VisionWorkspace& workspace,
            PictureMaps* maps = nullptr)
      : config_(config), weights_(weights), workspace_(workspace), maps_(maps) {}

  // Reads workspace.classed of `images` pictures, writes logits [images, classes].
  void run(int64_t images, float* logits) const {
    const int64_t dim = config_.dim;
    for (int64_t i = 0; i < images; ++i) {
      std::copy_n(weights_.class_token.data(), dim, workspace_.class_stream + i * dim);
    }
    for (size_t i = 0; i < weights_.class_blocks.size(); ++i) block(i, images);
    norm(weights_.norm, workspace_.class_stream, images, workspace_.class_normed, dim, false);
    product(weights_.head, workspace_.class_normed, dim, images,
            {.data = logits, .stride = config_.classes});
  }

 private:
  void block(size_t index, int64_t images) const {
    const ClassBlockWeights& block = weights_.class_blocks[index];
    const int64_t dim = config_.dim, hidden = block.fc1.outputs();
    const int64_t tokens = 1 + workspace_.shape.patches;
    float* stream = workspace_.class_stream;
    norm(block.norm1, stream, images, workspace_.classed[index], tokens * dim, false);
    attend(index, images);
    PackedResult residual{.data = stream, .stride = dim, .add = true};
    residual.gamma = block.gamma1.data();
    product(block.out, workspace_.class_values, dim, images, residual);
    // The normalised token is the residual as well.
    norm(block.norm2, stream, images, stream, dim, true);
    const void* branch = stream;
    if (workspace_.half()) {
      kernels::round_rows(stream, images, dim, workspace_.class_normed);
      branch = workspace_.class_normed;
    }
    product(block.fc1, branch, dim, images,
            {.data = workspace_.class_hidden,
             .stride = hidden,
             .dtype = workspace_.dtype(),
             .activation = kernels::Activation::kGelu});
    residual.gamma = block.gamma2.data();
    product(block.fc2, workspace_.class_hidden, hidden, images, residual);
  }

  // weights of the pictures' attention: q by the class token, then each head on its own.
  void attend(size_t index, int64_t images) const {
    const ClassBlockWeights& block = weights_.class_blocks[index];
    const int64_t dim = config_.dim, heads = config_.heads, width = dim / heads;
    const int64_t tokens = 1 + workspace_.shape.patches;
    void* classed = workspace_.classed[index];
    const auto own = [&] { return workspace_.scratch[size_t(thread_number())]; };
    product(block.query, classed, tokens * dim, images,
            {.data = workspace_.class_values, .stride = dim, .dtype = workspace_.dtype()});
    engine_parallel(heads, [&](int64_t begin, int64_t end) {
      for (int64_t h = begin; h < end; ++h) {
        const PackedRows q{.rows = images,
                           .data = workspace_.at(workspace_.class_values, h * width),
                           .stride = dim};
        block.key[size_t(h)].run(
            q, {.data = workspace_.class_query + h * dim, .stride = heads * dim}, own().product);
      }
    });
    engine_parallel(images, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        kernels::AttendRowsArgs args;
        args.rows = tokens;
        args.width = args.x_stride = dim;
        args.queries = heads;
        args.x = workspace_.at(classed, i * tokens * dim);
        args.x_dtype = args.out_dtype = workspace_.dtype();
        args.query = workspace_.class_query + i * heads * dim;
        args.scale = 1 / std::sqrt(static_cast<float>(width));
        args.weights = own().attention;
        args.out = workspace_.at(workspace_.class_sums, i * heads * dim);
        kernels::attend_rows(args);
        if (maps_ == nullptr) continue;
        auto& shares = maps_->class_attention.emplace_back();
        for (int64_t h = 0; h < heads; ++h, args.weights += tokens) {
          shares.emplace_back(args.weights, args.weights + tokens);
        }
      }
    });
    engine_parallel(heads, [&](int64_t begin, int64_t end) {
      for (int64_t h = begin; h < end; ++h) {
        const PackedRows sums{.rows = images,
                              .data = workspace_.at(workspace_.class_sums, h * dim),
                              .stride = heads * dim};
        void* to = workspace_.at(workspace_.class_values, h * width);
        block.value[size_t(h)].run(sums, {.data = to, .stride = dim, .dtype = workspace_.dtype()},
                                   own().product);
      }
    });
  }

  void norm(const NormWeight& norm, const float* x, int64_t images, void* y, int64_t y_stride,
            bool as_float) const {
    kernels::NormRowsArgs args = norm.args(x, images, y);
    args.y_stride = y_stride;
    args.y_type =
        workspace_.half() && !as_float ? kernels::RowType::kBfloat16 : kernels::RowType::kFloat32;
    kernels::norm_rows(args);
  }

  // Panels are shared among the threads: each reads its part of the weight.
  void product(const PackedLinear& map, const void* x, int64_t x_stride, int64_t images,
               const PackedResult& result) const {
    const PackedRows rows{.rows = images, .data = x, .stride = x_stride};
    engine_parallel(map.panels(), [&](int64_t first, int64_t last) {
      void* scratch = workspace_.scratch[size_t(thread_number())].product;
      map.run(rows, result, scratch, first, last);
    });
  }

  const VisionConfig& config_;
  const VisionWeights& weights_;
  VisionWorkspace& workspace_;
  PictureMaps* const maps_;  // of the only picture; may be null
};

// Rows of a tile at most, and of the pictures that a thread carries at a time. bfloat16 and int8
// products are so fast that reading the weights once for 200 rows would hold them up.
constexpr int64_t kFineRows = 208, kHalfRows = 400;
constexpr int64_t kCarriedRows = 200, kCarriedRowsHalf = 800;
constexpr int64_t kMostImages = 32;  // of one pass

VisionMixer checked_mixer(const VisionConfig& config, WeightSource& source, Packing products,
                          VisionMixer mixer) {
  const bool transformer = config.architecture == "transformer";
  if (engine_has(config)) return engine_mixers(config, source, products);
  const bool gelu = config.mlp == "gelu";
  if (transformer && gelu && mixer != nullptr) return mixer;
  fail_data("The model '", config.name, "' with the ",
            !transformer ? cat("architecture '", config.architecture)
            : gelu       ? cat("mixer '", config.mixer)
                         : cat("MLP '", config.mlp),
            "' needs the full program; build it by `make`.");
}

}  // namespace

PictureEngine::PictureEngine(const VisionConfig& config, WeightSource& source, Precision precision,
                             VisionMixer mixer)
    : config_(config),
      half_(packing_of(precision) != Packing::kFloat32),
      mixer_(checked_mixer(config, source, packing_of(precision), std::move(mixer))),
      weights_(pack_vision_weights(config, source, packing_of(precision))) {}

void PictureEngine::forward(const float* images, int64_t count, int64_t height, int64_t width,
                            float* logits) {
  check_sides(config_, height, width);
  const int64_t pixels = config_.in_channels * height * width;
  for (int64_t first = 0; first < count; first += kMostImages) {
    const int64_t some = std::min(kMostImages, count - first);
    prepare(some, height / config_.patch, width / config_.patch);
    pass(images + first * pixels, some, logits + first * config_.classes);
  }
}

void PictureEngine::trace(const float* image, int64_t height, int64_t width, float* logits,
                          PictureMaps& maps) {
  check_sides(config_, height, width);
  prepare(1, maps.rows = height / config_.patch, maps.columns = width / config_.patch);
  TokenPass(config_, weights_, mixer_, *workspace_, position_.data()).trace(image, maps);
  ClassPass(config_, weights_, *workspace_, &maps).run(1, logits);
}

void PictureEngine::prepare(int64_t images, int64_t rows, int64_t columns) {
  VisionShape shape{
      .images = images, .rows = rows, .columns = columns, .threads = engine_threads()};
  shape.patches = shape.rows * shape.columns;
  shape.tokens = shape.patches + config_.registers;
  if (workspace_ != nullptr) {
    const VisionShape& kept = workspace_->shape;
    if (kept.rows == shape.rows && kept.columns == shape.columns && kept.threads == shape.threads &&
        kept.images >= shape.images) {
      return;
    }
  }
  workspace_.reset();
  workspace_ =
      std::make_unique<VisionWorkspace>(config_, weights_, shape, half_ ? kHalfRows : kFineRows);
  const Array code = position_code(rows, columns);
  position_ = Array::empty({shape.patches, config_.dim});
  weights_.position.run({.rows = shape.patches, .data = code.data(), .stride = kPositionChannels},
                        {.data = position_.mutable_data(), .stride = config_.dim}, nullptr);
}

void PictureEngine::pass(const float* pictures, int64_t count, float* logits) {
  const int64_t threads = engine_threads();
  const int64_t together =
      std::max<int64_t>(1, (half_ ? kCarriedRowsHalf : kCarriedRows) / workspace_->shape.tokens);
  const TokenPass tokens(config_, weights_, mixer_, *workspace_, position_.data());
  // Pictures that threads carry on their own; the caller's mixer brings its own threads.
  const bool own_mixer = weights_.blocks[0].mixer != EngineMixer::kModule;
  const int64_t carried = !own_mixer || threads == 1 ? 0 : count / threads * threads;
  if (carried > 0) {
    engine_parallel(threads, [&](int64_t begin, int64_t end) {
      const int64_t last = carried / threads * end;
      for (int64_t i = carried / threads * begin; i < last; i += together) {
        tokens.run(pictures, i, std::min(together, last - i), serial_for, 1);
      }
    });
  }
  const int64_t at_once = threads == 1 && own_mixer ? together : count;
  for (int64_t i = carried; i < count; i += at_once) {
    tokens.run(pictures, i, std::min(at_once, count - i), engine_parallel, threads);
  }
  ClassPass(config_, weights_, *workspace_).run(count, logits);
}

}  // namespace tost
