// The kernels of group means against their reference; ops/means_test.cc has the rest.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tost/base/random.h"
#include "tost/kernels/isa.h"
#include "tost/kernels/means.h"
#include "tost/kernels/tssa_test_util.h"

namespace tost::kernels {
namespace {

// The forward of float32 inputs in float64, token by token, without a state: y [B, T, C].
void means_reference(const MeansInputs& in, double* y) {
  const auto [batch, tokens, heads, width] = in.shape;
  for (int64_t row = 0; row < batch * heads; ++row) {
    const int64_t b = row / heads, k = row % heads;
    std::vector<double> sum(width);
    double mass = 0;
    for (int64_t i = 0; i < tokens; ++i) {
      const int64_t t = k < heads - in.from_end ? i : tokens - 1 - i;
      const double pi = in.pi[(b * tokens + t) * heads + k];
      mass = in.decay[k] * mass + pi * pi;
      for (int64_t c = k * width; c < (k + 1) * width; ++c) {
        const auto at = [&](const ConstTokens& x) -> double {
          return static_cast<const float*>(x.data)[b * x.batch_stride + t * x.token_stride + c];
        };
        double& total = sum[c - k * width];
        total = in.decay[k] * total + pi * at(in.values);
        const double z = at(in.base) + in.scale[c] * total / std::sqrt(mass + 1e-6);
        const double gate = in.gate.data != nullptr ? at(in.gate) : 0;
        y[(b * tokens + t) * heads * width + c] =
            in.gate.data != nullptr ? z * gate / (1 + std::exp(-gate)) : z;
      }
    }
  }
}

TEST(MeansKernel, OutputsAreThoseOfTheReference) {
  const std::vector<double> decay{1, 0.9, 0.5, 0.99};
  for (const auto& isa : supported_isas()) {
    force_isa(isa);
    for (const TssaShape& shape : {TssaShape{1, 1, 1, 1}, TssaShape{2, 7, 3, 5},
                                   TssaShape{1, 200, 2, 16}, TssaShape{3, 65, 4, 33}}) {
      SCOPED_TRACE(::testing::Message() << isa << " " << shape.tokens << "x" << shape.width);
      Padded values(shape, 0, 0), base(shape, 0, 0), gate(shape, 0, 0), y(shape, 0, 0);
      values.fill(1), base.fill(2), gate.fill(3);
      Random random(4);
      std::vector<float> pi(shape.batch * shape.tokens * shape.heads), scale(shape.channels());
      for (float& x : pi) x = static_cast<float>(random.uniform());
      for (float& x : scale) x = static_cast<float>(random.normal());
      for (const bool gated : {false, true}) {
        MeansForwardArgs args;
        args.in = {.shape = shape,
                   .values = values.const_tokens(),
                   .base = base.const_tokens(),
                   .gate = gated ? gate.const_tokens() : ConstTokens{},
                   .pi = pi.data(),
                   .decay = decay.data(),
                   .scale = scale.data(),
                   .from_end = shape.heads / 2};
        args.y = y.tokens();
        Workspace workspace(means_forward_workspace(args));
        means_forward(args, workspace.data, serial_for);
        std::vector<double> wanted(shape.batch * shape.tokens * shape.channels());
        means_reference(args.in, wanted.data());
        for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(y.storage[i], wanted[i], 1e-5);
      }
    }
  }
  force_isa("auto");
}

}  // namespace
}  // namespace tost::kernels
