// The kernels of group means against their reference; ops/means_test.cc has the rest.
#include <gtest/gtest.h>

#include <vector>

#include "tost/base/random.h"
#include "tost/kernels/isa.h"
#include "tost/kernels/means.h"
#include "tost/kernels/tssa_test_util.h"

namespace tost::kernels {
namespace {

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
