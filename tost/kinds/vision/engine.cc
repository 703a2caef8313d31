#include "tost/kinds/vision/engine.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tost/base/error.h"
#include "tost/kernels/attend_rows.h"
#include "tost/kernels/row_ops.h"
#include "tost/kinds/vision/config.h"
#include "tost/kinds/vision/engine_weights.h"
#include "tost/kinds/vision/transformer.h"
#include "tost/nn/device_autocast.h"
#include "tost/ops/kernel_call.h"

namespace tost {
namespace {

using torch::Tensor;

// Runs the class blocks and the head. All pictures of a pass run together, because the products
// have one row a picture and reading the weights bounds their time.
class ClassPass {
 public:
  ClassPass(const VisionConfig& config, const VisionWeights& weights, VisionWorkspace& workspace,
            bool half)
      : config_(config), weights_(weights), workspace_(workspace), half_(half) {}

  // Reads workspace.classed of `images` pictures, and writes logits [images, classes].
  void run(int64_t images, float* logits) const {
    const int64_t dim = config_.dim;
    for (int64_t i = 0; i < images; ++i) {
      std::copy_n(data(weights_.class_token), dim, workspace_.class_stream + i * dim);
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
    residual.gamma = data(block.gamma1);
    product(block.out, workspace_.class_values, dim, images, residual);
    // Uses the normalised token as residual, too.
    norm(block.norm2, stream, images, stream, dim, true);
    const void* branch = stream;
    if (half_) {
      kernels::FinishRowsArgs copy;
      copy.rows = images;
      copy.columns = copy.sums_stride = copy.out_stride = dim;
      copy.sums = stream;
      copy.out = workspace_.class_normed;
      copy.out_dtype = dtype();
      kernels::finish_rows(copy);
      branch = workspace_.class_normed;
    }
    product(block.fc1, branch, dim, images,
            {.data = workspace_.class_hidden,
             .stride = hidden,
             .dtype = dtype(),
             .activation = kernels::Activation::kGelu});
    residual.gamma = data(block.gamma2);
    product(block.fc2, workspace_.class_hidden, hidden, images, residual);
  }

  // Computes the attention weights of the pictures: q from the class token, then each head
  // separately.
  void attend(size_t index, int64_t images) const {
    const ClassBlockWeights& block = weights_.class_blocks[index];
    const int64_t dim = config_.dim, heads = config_.heads, width = dim / heads;
    const int64_t tokens = 1 + workspace_.shape.patches;
    void* classed = workspace_.classed[index];
    const auto own = [&] { return workspace_.scratch[static_cast<size_t>(at::get_thread_num())]; };
    product(block.query, classed, tokens * dim, images,
            {.data = workspace_.class_values, .stride = dim, .dtype = dtype()});
    at::parallel_for(0, heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t h = begin; h < end; ++h) {
        const PackedRows q{
            .rows = images, .data = at(workspace_.class_values, h * width), .stride = dim};
        block.key[size_t(h)].run(
            q, {.data = workspace_.class_query + h * dim, .stride = heads * dim}, own().product);
      }
      PackedLinear::release();
    });
    at::parallel_for(0, images, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        kernels::AttendRowsArgs args;
        args.rows = tokens;
        args.width = args.x_stride = dim;
        args.queries = heads;
        args.x = at(classed, i * tokens * dim);
        args.x_dtype = args.out_dtype = dtype();
        args.query = workspace_.class_query + i * heads * dim;
        args.scale = 1 / std::sqrt(static_cast<float>(width));
        args.weights = own().attention;
        args.out = at(workspace_.class_sums, i * heads * dim);
        kernels::attend_rows(args);
      }
    });
    at::parallel_for(0, heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t h = begin; h < end; ++h) {
        const PackedRows sums{
            .rows = images, .data = at(workspace_.class_sums, h * dim), .stride = heads * dim};
        void* to = at(workspace_.class_values, h * width);
        block.value[size_t(h)].run(sums, {.data = to, .stride = dim, .dtype = dtype()},
                                   own().product);
      }
      PackedLinear::release();
    });
  }

  void norm(const NormWeights& norm, const void* x, int64_t images, void* y, int64_t y_stride,
            bool as_float) const {
    kernels::NormRowsArgs args;
    args.rows = images;
    args.width = args.x_stride = config_.dim;
    args.x = x;
    args.weight = data(norm.weight);
    args.bias = data(norm.bias);
    args.y = y;
    args.y_stride = y_stride;
    args.y_type = half_ && !as_float ? kernels::RowType::kBfloat16 : kernels::RowType::kFloat32;
    kernels::norm_rows(args);
  }

  // Divides panels among the threads, so that each reads a part of the weight.
  void product(const PackedLinear& map, const void* x, int64_t x_stride, int64_t images,
               const PackedResult& result) const {
    const PackedRows rows{.rows = images, .data = x, .stride = x_stride};
    at::parallel_for(0, map.panels(), 1, [&](int64_t first, int64_t last) {
      void* scratch = workspace_.scratch[static_cast<size_t>(at::get_thread_num())].product;
      map.run(rows, result, scratch, first, last);
      PackedLinear::release();
    });
  }

  int64_t size() const { return half_ ? 2 : 4; }
  kernels::DType dtype() const {
    return half_ ? kernels::DType::kBfloat16 : kernels::DType::kFloat32;
  }
  void* at(void* base, int64_t element) const {
    return static_cast<char*>(base) + element * size();
  }

  const VisionConfig& config_;
  const VisionWeights& weights_;
  VisionWorkspace& workspace_;
  const bool half_;
};

// The largest number of rows of a tile, and of the pictures that a thread processes at a time. The
// numbers are larger for bfloat16 and int8, because their products would wait for weights.
int64_t tile_rows_of(Packing products) {
  return products == Packing::kFloat32 ? 208 : 400;
}
constexpr int64_t kCarriedRows = 200, kCarriedRowsHalf = 800;
constexpr int64_t kMostImages = 32;  // of one pass

const VisionTransformer& transformer(const ImageClassifier& model) {
  if (VisionEngine::supports(model)) return dynamic_cast<const VisionTransformer&>(model);
  fail_usage("The engine runs vision transformers with float32 weights on the CPU; model '",
             model.config().name, "' is not one of them.");
}

}  // namespace

class VisionEngine::Run {
 public:
  Run(const VisionTransformer& model, Packing products)
      : config_(model.config()),
        weights_(pack_vision_weights(model, products)),
        half_(products != Packing::kFloat32),
        tile_rows_(tile_rows_of(products)) {
    for (const auto& block : weights_.blocks) {
      modules_ = modules_ || block.mixer == EngineMixer::kModule;
    }
  }

  Tensor forward(const Tensor& images) {
    Tensor logits = torch::empty({images.dim() > 0 ? images.size(0) : 0, config_.classes});
    const c10::InferenceMode no_grad;
    const DeviceAutocast own_precision{Autocast::kOff};
    check(images);
    const Tensor pictures = images.to(torch::kFloat).contiguous();
    const int64_t batch = pictures.size(0), classes = config_.classes;
    for (int64_t first = 0; first < batch; first += kMostImages) {
      const int64_t count = std::min(kMostImages, batch - first);
      pass(pictures.narrow(0, first, count), logits.mutable_data_ptr<float>() + first * classes);
    }
    return logits;
  }

 private:
  void check(const Tensor& images) const {
    const int64_t patch = config_.patch;
    if (images.dim() != 4 || !images.is_floating_point() || images.size(1) != config_.in_channels ||
        images.size(0) < 1) {
      fail_data("Model '", config_.name, "' takes images [B, ", config_.in_channels,
                ", Y, X] of a floating type, at least one; got ", images.sizes(), " of ",
                images.dtype().name(), ".");
    }
    if (images.size(2) % patch != 0 || images.size(3) % patch != 0 || images.numel() == 0) {
      fail_data("Images of ", images.size(2), " x ", images.size(3),
                " pixels do not divide into patches of ", patch, " x ", patch, " (model '",
                config_.name, "'); resize them to multiples of ", patch, ".");
    }
  }

  void prepare(const Tensor& images) {
    VisionShape shape{.images = images.size(0),
                      .rows = images.size(2) / config_.patch,
                      .columns = images.size(3) / config_.patch,
                      .threads = at::get_num_threads()};
    shape.patches = shape.rows * shape.columns;
    shape.tokens = shape.patches + config_.registers;
    if (workspace_ != nullptr) {
      const VisionShape& kept = workspace_->shape;
      if (kept.rows == shape.rows && kept.columns == shape.columns &&
          kept.threads == shape.threads && kept.images >= shape.images) {
        return;
      }
    }
    workspace_.reset();
    workspace_ = std::make_unique<VisionWorkspace>(config_, weights_, shape, tile_rows_);
    position_ = torch::linear(FourierPosition::table(shape.rows, shape.columns), weights_.position,
                              weights_.position_bias)
                    .contiguous();
  }

  int64_t carried_together() const {
    const int64_t rows = half_ ? kCarriedRowsHalf : kCarriedRows;
    return std::max<int64_t>(1, rows / workspace_->shape.tokens);
  }

  void pass(const Tensor& images, float* logits) {
    prepare(images);
    const float* pictures = images.const_data_ptr<float>();
    const int64_t count = images.size(0), threads = at::get_num_threads();
    const TokenPass tokens(config_, weights_, *workspace_, position_.const_data_ptr<float>());
    const int64_t together = carried_together();
    // The number of pictures that each thread processes separately; 0 if the mixer is a module,
    // which starts threads.
    const int64_t carried = modules_ || threads == 1 ? 0 : count / threads * threads;
    if (carried > 0) {
      at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
        const int64_t last = carried / threads * end;
        for (int64_t i = carried / threads * begin; i < last; i += together) {
          tokens.run(pictures, i, std::min(together, last - i), serial_for, 1);
        }
      });
    }
    const int64_t at_once = threads == 1 && !modules_ ? together : count;
    for (int64_t i = carried; i < count; i += at_once) {
      tokens.run(pictures, i, std::min(at_once, count - i), torch_parallel, threads);
    }
    ClassPass(config_, weights_, *workspace_, half_).run(count, logits);
  }

  const VisionConfig config_;
  const VisionWeights weights_;
  const bool half_;
  const int64_t tile_rows_;
  bool modules_ = false;
  std::unique_ptr<VisionWorkspace> workspace_;
  Tensor position_;  // [N, C]
};

bool VisionEngine::supports(const ImageClassifier& model) {
  return dynamic_cast<const VisionTransformer*>(&model) != nullptr && packable(model) &&
         model.config().class_blocks > 0 && model.config().depth > 0;
}

VisionEngine::VisionEngine(const ImageClassifier& model, Precision precision)
    : precision_(precision),
      run_(std::make_unique<Run>(transformer(model), packing_of(precision))) {}

VisionEngine::~VisionEngine() = default;

torch::Tensor VisionEngine::forward(const torch::Tensor& images) {
  return run_->forward(images);
}

}  // namespace tost
