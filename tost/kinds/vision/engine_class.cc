#include "tost/kinds/vision/engine_class.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "tost/kernels/attend_rows.h"

namespace tost {

void ClassPass::run(int64_t images, float* logits) const {
  const int64_t dim = config_.dim;
  for (int64_t i = 0; i < images; ++i) {
    std::copy_n(data(weights_.class_token), dim, workspace_.class_stream + i * dim);
  }
  for (size_t i = 0; i < weights_.class_blocks.size(); ++i) block(i, images);
  norm(weights_.norm, workspace_.class_stream, images, workspace_.class_normed, dim, false);
  product(weights_.head, workspace_.class_normed, dim, images,
          {.data = logits, .stride = config_.classes});
}

void ClassPass::norm(const NormWeights& norm, const void* x, int64_t images, void* y,
                     int64_t y_stride, bool as_float) const {
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

// Panels are shared among the threads: each reads its part of the weight.
void ClassPass::product(const PackedLinear& map, const void* x, int64_t x_stride, int64_t images,
                        const PackedResult& result) const {
  const PackedRows rows{.rows = images, .data = x, .stride = x_stride};
  at::parallel_for(0, map.panels(), 1, [&](int64_t first, int64_t last) {
    void* scratch = workspace_.scratch[static_cast<size_t>(at::get_thread_num())].product;
    map.run(rows, result, scratch, first, last);
    PackedLinear::release();
  });
}

// weights of the pictures' attention: q by the class token, then each head on its own.
void ClassPass::attend(size_t index, int64_t images) const {
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
      block.key[size_t(h)].run(q, {.data = workspace_.class_query + h * dim, .stride = heads * dim},
                               own().product);
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

void ClassPass::block(size_t index, int64_t images) const {
  const ClassBlockWeights& block = weights_.class_blocks[index];
  const int64_t dim = config_.dim, hidden = block.fc1.outputs();
  const int64_t tokens = 1 + workspace_.shape.patches;
  float* stream = workspace_.class_stream;
  norm(block.norm1, stream, images, workspace_.classed[index], tokens * dim, false);
  attend(index, images);
  PackedResult residual{.data = stream, .stride = dim, .add = true};
  residual.gamma = data(block.gamma1);
  product(block.out, workspace_.class_values, dim, images, residual);
  // The normalised token is the residual as well.
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

}  // namespace tost
