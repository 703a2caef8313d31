#include <algorithm>
#include <cmath>
#include <cstring>

#include "tost/base/checked.h"
#include "tost/engine/threads.h"
#include "tost/engine/vision_weights.h"
#include "tost/kernels/row_ops.h"
#include "tost/kernels/tssa.h"
#include "tost/kernels/work_times.h"

namespace tost {
namespace {

constexpr int64_t kHiddenColumns = 384;  // of an MLP, computed and used at a time

// Divides rows into tiles of nearly equal size, at most `most`, with the same number for every
// thread. For one thread, tiles are whole blocks of the matrix units.
struct EvenTiles {
  EvenTiles(int64_t rows, int64_t most, int64_t threads)
      : tiles(threads * std::max<int64_t>(1, divide_up(rows, threads * most))),
        each(divide_up(rows, tiles)) {
    constexpr int64_t kUnit = 16;
    if (threads == 1 && most % kUnit == 0) each = divide_up(each, kUnit) * kUnit;
  }

  int64_t tiles, each;
};

}  // namespace

template <class Body>
void TokenPass::for_tiles(int64_t first, int64_t count, ParallelFor parallel, int64_t threads,
                          const Body& body) const {
  const EvenTiles cut(count, workspace_.tile_rows, threads);
  parallel(cut.tiles, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t own = std::min(cut.each, count - t * cut.each);
      if (own > 0) body(Rows{first + t * cut.each, own});
    }
  });
}

void TokenPass::run(const float* images, int64_t first, int64_t count, ParallelFor parallel,
                    int64_t threads) const {
  const int64_t tokens = workspace_.shape.tokens;
  for (int64_t image = first; image < first + count; ++image) {
    embed(images, image, parallel, threads);
  }
  const auto& blocks = weights_.blocks;
  for (size_t i = 0; i <= blocks.size(); ++i) {
    const float* shift = i > 0 ? blocks[i - 1].fc2_shift.data() : nullptr;
    // One block's end and the next one's beginning touch the same rows.
    for_tiles(first * tokens, count * tokens, parallel, threads, [&](Rows rows) {
      const bool last = rows.first + rows.count == (first + count) * tokens;
      if (i > 0) {
        add_mixed(blocks[i - 1], rows);
        finish(blocks[i - 1], rows,
               i < blocks.size() ? blocks[i].in.ahead() : kernels::FetchAhead());
      }
      if (i < blocks.size()) {
        front(blocks[i], shift, rows, blocks[last || i == 0 ? i : i - 1].out.ahead());
      }
    });
    if (i < blocks.size()) mix(int64_t(i), shift, first, count, parallel, threads);
  }
  for (int64_t image = first; image < first + count; ++image) {
    for_tiles(0, workspace_.shape.patches, parallel, threads,
              [&](Rows rows) { class_rows(image, rows); });
  }
}

void TokenPass::trace(const float* picture, PictureMaps& maps) const {
  const auto& shape = workspace_.shape;
  const int64_t tokens = shape.tokens, threads = shape.threads, dim = config_.dim;
  const auto each_tile = [&](const auto& body) {
    for_tiles(0, tokens, engine_parallel, threads, body);
  };
  embed(picture, 0, engine_parallel, threads);
  const float* shift = nullptr;
  for (const TokenBlockWeights& block : weights_.blocks) {
    PictureLayer& layer = maps.layers.emplace_back();
    const auto mixed = [&](const float* before) {
      SeenMixer seen;
      each_tile([&](Rows rows) { front(block, before, rows); });
      mix(int64_t(maps.layers.size()) - 1, before, 0, 1, engine_parallel, threads, &seen);
      return seen;
    };
    const SeenMixer seen = mixed(shift);
    if (seen.pi.defined()) layer.compression_before = layer_compression(seen.w, seen.pi);
    each_tile([&](Rows rows) { add_mixed(block, rows); });
    if (seen.pi.defined()) {
      // Goes into the layer once more, and back.
      const std::vector<float> after(stream(0), stream(tokens));
      layer.compression_after = layer_compression(mixed(block.out_shift.data()).w, seen.pi);
      std::copy(after.begin(), after.end(), stream(0));
    }
    each_tile([&](Rows rows) { finish(block, rows); });
    shift = block.fc2_shift.data();
    for (int64_t h = 0; seen.pi.defined() && h < config_.heads; ++h) {
      const float* pi = seen.pi.data() + h * tokens;
      layer.memberships.emplace_back(pi, pi + shape.patches);
    }
    for (int64_t t = 0; t < tokens; ++t) {
      double sum = 0;
      for (int64_t c = 0; c < dim; ++c) sum += std::pow(double(stream(t)[c] + shift[c]), 2);
      (t < shape.patches ? layer.norms : layer.register_norms).push_back(std::sqrt(sum));
    }
  }
  for_tiles(0, shape.patches, engine_parallel, threads, [&](Rows rows) { class_rows(0, rows); });
}

void TokenPass::embed(const float* images, int64_t image, ParallelFor parallel,
                      int64_t threads) const {
  const auto& shape = workspace_.shape;
  const int64_t pixels = shape.patches * config_.patch * config_.patch;
  const float* picture = images + image * config_.in_channels * pixels;
  const int64_t owner = thread_number();
  const void* planes = workspace_.half() ? rounded_picture(picture, owner, parallel) : picture;
  int64_t outputs = pixels;
  for (size_t s = 0; s < weights_.stem.size(); ++s) {
    const StemStage& stage = weights_.stem[s];
    outputs /= stage.stride * stage.stride;
    const EvenTiles cut(outputs, stem_tile_rows(stage), threads);
    parallel(cut.tiles, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t own = std::min(cut.each, outputs - t * cut.each);
        if (own > 0) stem_rows(s, planes, image, owner, {t * cut.each, own});
      }
    });
  }
  if (weights_.registers.defined()) {
    std::copy_n(weights_.registers.data(), weights_.registers.numel(),
                stream(image * shape.tokens + shape.patches));
  }
}

// Stores pixels as bfloat16, because each pixel is gathered several times.
const void* TokenPass::rounded_picture(const float* picture, int64_t owner,
                                       ParallelFor parallel) const {
  void* planes = workspace_.pictures[static_cast<size_t>(owner)][0];
  const int64_t columns = workspace_.shape.columns * config_.patch;
  parallel(config_.in_channels * workspace_.shape.rows, [&](int64_t begin, int64_t end) {
    kernels::round_rows(picture + begin * config_.patch * columns, (end - begin) * config_.patch,
                        columns, workspace_.at(planes, begin * config_.patch, columns));
  });
  return planes;
}

// `owner` is the thread that processes the pictures.
void TokenPass::stem_rows(size_t index, const void* planes, int64_t image, int64_t owner,
                          Rows rows) const {
  const auto& shape = workspace_.shape;
  const auto& between = workspace_.pictures[static_cast<size_t>(owner)];
  const StemStage& stage = weights_.stem[index];
  int64_t shrunk = 1;
  for (size_t s = 0; s < index; ++s) shrunk *= weights_.stem[s].stride;
  const StemCall call{.stage = stage,
                      .half = workspace_.half(),
                      .planes = index == 0 ? planes : nullptr,
                      .picture = index == 0 ? nullptr : between[index],
                      .rows = shape.rows * config_.patch / shrunk,
                      .columns = shape.columns * config_.patch / shrunk,
                      .gathered = scratch().gathered,
                      .scratch = scratch().product};
  PackedResult result{.stride = stage.to};
  if (index + 1 < weights_.stem.size()) {
    result.data = workspace_.at(between[index + 1], rows.first, stage.to);
    result.dtype = workspace_.dtype();
    result.activation = kernels::Activation::kGelu;
  } else {
    float* to = stream(image * shape.tokens + rows.first);
    std::copy_n(position_ + rows.first * config_.dim, rows.count * config_.dim, to);
    result.data = to;
    result.add = true;
  }
  run_stem_stage(call, rows.first, rows.count, result);
}

const ThreadScratch& TokenPass::scratch() const {
  return workspace_.scratch[static_cast<size_t>(thread_number())];
}

kernels::NormRowsArgs TokenPass::norm_args(const NormWeight& norm, const float* shift,
                                           Rows rows) const {
  kernels::NormRowsArgs args = norm.args(stream(rows.first), rows.count, nullptr);
  args.shift = shift;
  args.shifted = stream(rows.first);
  return args;
}

void TokenPass::add_rows(const float* y, const Array& gamma, Rows rows) const {
  kernels::FinishRowsArgs args;
  args.rows = rows.count;
  args.columns = args.sums_stride = args.out_stride = config_.dim;
  args.sums = y;
  args.add = true;
  args.gamma = gamma.data();
  args.out = stream(rows.first);
  kernels::finish_rows(args);
}

void TokenPass::norm(const NormWeight& norm, const float* shift, Rows rows, bool as_float) const {
  const ThreadScratch& local = scratch();
  const bool bytes = !as_float && workspace_.products == Packing::kInt8;
  kernels::NormRowsArgs args = norm_args(norm, shift, rows);
  args.y = local.normed;
  args.y_type = bytes                            ? kernels::RowType::kUint8
                : as_float || !workspace_.half() ? kernels::RowType::kFloat32
                                                 : kernels::RowType::kBfloat16;
  args.scale = local.scale;
  args.zero = local.zero;
  kernels::norm_rows(args);
}

PackedRows TokenPass::normed_rows(const NormWeight& weights, const float* shift, Rows rows) const {
  norm(weights, shift, rows, /*as_float=*/false);
  const ThreadScratch& local = scratch();
  if (workspace_.products == Packing::kInt8) {
    return {rows.count, local.normed, config_.dim, local.scale, local.zero};
  }
  return {.rows = rows.count, .data = local.normed, .stride = config_.dim};
}

// Converts stored tokens to the input form of a product.
PackedRows TokenPass::stored_rows(const void* data, int64_t width, int64_t count,
                                  Packing packing) const {
  if (packing != Packing::kInt8) return {.rows = count, .data = data, .stride = width};
  const ThreadScratch& local = scratch();
  float* scale = local.scale + count;
  int32_t* zero = local.zero + count;
  kernels::quantize_rows(
      {count, width, data, width, workspace_.dtype(), local.bytes, width, scale, zero});
  return {count, local.bytes, width, scale, zero};
}

void TokenPass::front(const TokenBlockWeights& block, const float* shift, Rows rows,
                      const kernels::FetchAhead& next) const {
  if (block.mixer == EngineMixer::kModule) return;
  const PackedRows x = normed_rows(block.norm1, shift, rows);
  void* to = workspace_.at(workspace_.projected, rows.first, config_.dim);
  block.in.run(x, {.data = to, .stride = config_.dim, .dtype = workspace_.dtype(), .next = next},
               scratch().product);
}

void TokenPass::add_mixed(const TokenBlockWeights& block, Rows rows) const {
  if (block.mixer == EngineMixer::kModule) return;
  void* from = block.mixer == EngineMixer::kNone ? workspace_.projected : workspace_.mixed;
  const PackedRows y = stored_rows(workspace_.at(from, rows.first, config_.dim), config_.dim,
                                   rows.count, block.out.packing());
  block.out.accumulate(y, stream(rows.first), config_.dim, 0, config_.dim, scratch().product,
                       block.fc1.ahead(0, block.fc1.panels_within(kHiddenColumns)));
}

// Computes a part of the hidden columns at a time, so that it stays in the L2 cache.
void TokenPass::finish(const TokenBlockWeights& block, Rows rows,
                       const kernels::FetchAhead& next) const {
  const PackedRows x = normed_rows(block.norm2, block.out_shift.data(), rows);
  const ThreadScratch& local = scratch();
  const int64_t panels = block.fc1.panels(), columns = block.fc1.panel_columns();
  const int64_t at_once = block.fc1.panels_within(kHiddenColumns);
  for (int64_t p = 0; p < panels; p += at_once) {
    const int64_t last = std::min(panels, p + at_once);
    const int64_t first = p * columns;
    const int64_t count = std::min(block.fc1.outputs(), last * columns) - first;
    block.fc1.run(x,
                  {.data = local.hidden,
                   .stride = count,
                   .first_column = first,
                   .dtype = workspace_.dtype(),
                   .activation = kernels::Activation::kGelu,
                   .next = block.fc2.ahead_of_inputs(first, count)},
                  local.product, p, last);
    block.fc2.accumulate(stored_rows(local.hidden, count, rows.count, block.fc2.packing()),
                         stream(rows.first), config_.dim, first, count, local.product,
                         last < panels ? block.fc1.ahead(last, last + at_once) : next);
  }
}

void TokenPass::mix(int64_t index, const float* shift, int64_t first, int64_t count,
                    ParallelFor parallel, int64_t threads, SeenMixer* seen) const {
  const TokenBlockWeights& block = weights_.blocks[size_t(index)];
  if (block.mixer == EngineMixer::kNone) return;
  if (block.mixer == EngineMixer::kModule) return mix_by_caller(index, shift, first, count, seen);
  const int64_t tokens = workspace_.shape.tokens, dim = config_.dim;
  kernels::TssaForwardArgs args;
  args.shape = {count, tokens, config_.heads, dim / config_.heads};
  args.dtype = workspace_.dtype();
  args.w = {workspace_.at(workspace_.projected, first * tokens, dim), tokens * dim, dim};
  args.temp = block.temp.data();
  args.y = {workspace_.at(workspace_.mixed, first * tokens, dim), tokens * dim, dim};
  if (seen != nullptr) {
    const auto type = workspace_.half() ? TorchDtype::kBFloat16 : TorchDtype::kFloat32;
    seen->w =
        Array({tokens, dim}, type, {std::shared_ptr<void>(), workspace_.projected}).as_float();
    seen->pi = Array::empty({config_.heads, tokens});
    args.pi = seen->pi.mutable_data();
  }
  kernels::tssa_forward(args, static_cast<char*>(workspace_.tssa) + first * workspace_.tssa_bytes,
                        parallel, static_cast<int>(threads));
}

// Normalised tokens through the caller's mixer, onto the stream.
void TokenPass::mix_by_caller(int64_t index, const float* shift, int64_t first, int64_t count,
                              SeenMixer* seen) const {
  const TokenBlockWeights& block = weights_.blocks[size_t(index)];
  const int64_t tokens = workspace_.shape.tokens;
  const Rows rows{first * tokens, count * tokens};
  Array x = Array::empty({count, tokens, config_.dim}), y = Array::empty(x.shape());
  auto norm = norm_args(block.norm1, shift, rows);
  norm.y = x.mutable_data();
  kernels::norm_rows(norm);
  mixer_(index, x, y.mutable_data(), seen);
  add_rows(y.data(), block.gamma1, rows);
}

// Rows of a picture's patches for all class blocks; see ClassState in kinds/vision/transformer.h.
void TokenPass::class_rows(int64_t image, Rows rows) const {
  const int64_t dim = config_.dim, patches = workspace_.shape.patches;
  const Rows stored{image * workspace_.shape.tokens + rows.first, rows.count};
  for (size_t i = 0; i < weights_.class_blocks.size(); ++i) {
    const ClassBlockWeights& block = weights_.class_blocks[i];
    const float* shift = i == 0 ? weights_.blocks.back().fc2_shift.data() : nullptr;
    auto norm1 = norm_args(block.norm1, shift, stored);
    norm1.y = workspace_.at(workspace_.classed[i], image * (1 + patches) + 1 + rows.first, dim);
    norm1.y_type = workspace_.half() ? kernels::RowType::kBfloat16 : kernels::RowType::kFloat32;
    kernels::norm_rows(norm1);
    if (i + 1 == weights_.class_blocks.size()) break;
    norm(block.norm1, nullptr, stored, /*as_float=*/true);
    add_rows(static_cast<const float*>(scratch().normed), block.gamma1, stored);
    if (block.doubled.weight.defined()) {
      auto norm2 = norm_args(block.doubled, nullptr, stored);
      norm2.y = stream(stored.first);
      kernels::norm_rows(norm2);
    } else {
      float* x = stream(stored.first);
      for (int64_t k = 0; k < rows.count * dim; ++k) x[k] *= 2;
    }
  }
}

namespace {

constexpr int64_t kSide = 3;                   // of the kernel of a convolution
constexpr int64_t kGatheredBytes = 256 << 10;  // of gathered pixels
constexpr int64_t kFewestRows = 32, kMostRows = 224;

// The first row and column of an output pixel's window in the input; both may be outside.
struct Window {
  int64_t top, left;
};

// Copies the pixels of one window, three at a time, with zeros beyond the border. Returns the end.
template <class T>
T* gather_window(const StemCall& call, const Window& at, T* to) {
  const int64_t from = call.stage.from;
  const int64_t first = std::max<int64_t>(at.left, 0);
  const int64_t last = std::min(at.left + kSide, call.columns);
  for (int64_t ky = 0; ky < kSide; ++ky, to += kSide * from) {
    const int64_t y = at.top + ky;
    const bool inside = y >= 0 && y < call.rows;
    if (!inside || last - first < kSide) std::fill_n(to, kSide * from, T(0));
    if (!inside) continue;
    const T* pixels = static_cast<const T*>(call.picture) + (y * call.columns + first) * from;
    std::memcpy(to + (first - at.left) * from, pixels, size_t((last - first) * from) * sizeof(T));
  }
  return to;
}

// Copies a window of planes that crosses no border. Each row except the last copies four pixels by
// one load and one store; the next row overwrites the fourth.
template <class T>
T* gather_inner_planes(const StemCall& call, const Window& at, T* to) {
  const T* plane = static_cast<const T*>(call.planes) + at.top * call.columns + at.left;
  const int64_t rows = call.stage.from * kSide;
  for (int64_t k = 0; k + 1 < rows; ++k, to += kSide) {
    const T* row = plane + (k / kSide * call.rows + k % kSide) * call.columns;
    std::memcpy(to, row, (kSide + 1) * sizeof(T));
  }
  const T* row = plane + ((call.stage.from - 1) * call.rows + kSide - 1) * call.columns;
  return std::copy_n(row, kSide, to);
}

template <class T>
T* gather_patch(const StemCall& call, const Window& at, T* to) {
  const int64_t side = call.stage.side;
  for (int64_t k = 0; k < call.stage.from * side; ++k, to += side) {
    const int64_t row = k / side * call.rows + at.top + k % side;
    std::copy_n(static_cast<const T*>(call.planes) + row * call.columns + at.left, side, to);
  }
  return to;
}

template <class T>
T* gather_planes(const StemCall& call, const Window& at, T* to) {
  if (call.stage.side != kSide) return gather_patch(call, at, to);
  if (at.top >= 0 && at.left >= 0 && at.top + kSide <= call.rows &&
      at.left + kSide <= call.columns) {
    return gather_inner_planes(call, at, to);
  }
  for (int64_t c = 0; c < call.stage.from; ++c) {
    for (int64_t y = at.top; y < at.top + kSide; ++y) {
      const T* row = static_cast<const T*>(call.planes) + (c * call.rows + y) * call.columns;
      for (int64_t x = at.left; x < at.left + kSide; ++x) {
        const bool there = y >= 0 && y < call.rows && x >= 0 && x < call.columns;
        *to++ = there ? row[x] : T(0);
      }
    }
  }
  return to;
}

template <class T>
void gather(const StemCall& call, int64_t first, int64_t count) {
  const int64_t stride = call.stage.stride, across = (call.columns - 1) / stride + 1;
  const int64_t border = call.stage.side == kSide ? 1 : 0;
  int64_t row = first / across, column = first % across;
  T* to = static_cast<T*>(call.gathered);
  for (int64_t i = 0; i < count; ++i) {
    const Window at{row * stride - border, column * stride - border};
    T* const next = to + call.stage.product.inputs();
    to = call.planes != nullptr ? gather_planes(call, at, to) : gather_window(call, at, to);
    std::fill(to, next, T(0));
    to = next;
    if (++column == across) column = 0, ++row;
  }
}

}  // namespace

int64_t stem_tile_rows(const StemStage& stage) {
  const int64_t size = stage.product.packing() == Packing::kFloat32 ? 4 : 2;
  const int64_t fitting = kGatheredBytes / (stage.product.inputs() * size) / 16 * 16;
  return std::clamp(fitting, kFewestRows, kMostRows);
}

void run_stem_stage(const StemCall& call, int64_t first, int64_t count,
                    const PackedResult& result) {
  {
    const kernels::WorkTimer timer(kernels::Work::kGather);
    call.half ? gather<uint16_t>(call, first, count) : gather<float>(call, first, count);
  }
  const int64_t inputs = call.stage.product.inputs();
  call.stage.product.run({.rows = count, .data = call.gathered, .stride = inputs}, result,
                         call.scratch);
}

}  // namespace tost
