#include <gtest/gtest.h>

#include "tost/ops/softmax_gradient.h"
#include "tost/testing/stand_in_gpu.h"
#include "tost/torch.h"

namespace tost {
namespace {

using torch::Tensor;

TEST(GpuOperators, GiveCrossEntropyAndItsGradientAsTorchDoes) {
  TOST_TEST_GPU(device);
  torch::manual_seed(1);
  for (const auto type : {torch::kFloat, torch::kBFloat16, torch::kDouble}) {
    for (const auto& [rows, width] :
         {std::pair<int64_t, int64_t>{1, 2}, {5, 64}, {37, 5003}, {3, 50304}}) {
      SCOPED_TRACE(::testing::Message() << type << " " << rows << " x " << width);
      const Tensor logits = (4 * torch::randn({rows, width})).to(type);
      const Tensor targets = torch::arange(rows, torch::kLong).mul(7919).remainder(width);
      targets.masked_fill_(torch::arange(rows).remainder(4).eq(1), -1);
      const Tensor exact = logits.to(torch::kDouble).requires_grad_(true);
      const Tensor loss =
          torch::cross_entropy_loss(exact, targets, {}, at::Reduction::Sum, /*ignore_index=*/-1);
      const Tensor wanted = 0.25 * torch::autograd::grad({loss}, {exact})[0];
      const Tensor own = logits.to(device).clone(), given = own.clone();
      const Tensor scale = torch::full({}, 0.25, own.options().dtype(torch::kDouble));
      const double size = loss.item<double>(), limit = type == torch::kBFloat16 ? 5e-3 : 5e-6;
      EXPECT_NEAR(softmax_gradient(given, targets.to(device), std::nullopt).item<double>(), size,
                  3e-6 * size);
      EXPECT_NEAR(softmax_gradient(own, targets.to(device), scale).item<double>(), size,
                  3e-6 * size);
      // Relative to the largest of each row, but for that of the target.
      const Tensor off = (own.cpu().to(torch::kDouble) - wanted).abs();
      const Tensor others =
          wanted.abs().scatter(1, targets.clamp_min(0).unsqueeze(1), 0.0).amax(1, true);
      EXPECT_LE((off - limit * wanted.abs()).max().item<double>(), limit * 0.01);
      EXPECT_LE((off - limit * wanted.abs() - limit * others).max().item<double>(), 1e-9);
    }
  }
}

}  // namespace
}  // namespace tost
