// LayerNorm, GELU and scaled residual of a block, on a GPU.
#include "tost/ops/mlp_grad_test_util.h"
#include "tost/testing/stand_in_gpu.h"

namespace tost {
namespace {

// Packs and single values, rows that end within a block of threads, many blocks.
TEST(GpuOperators, StandAroundTheProductsOfABlockAsTorchDoes) {
  TOST_TEST_GPU(device);
  ASSERT_TRUE(branch::runs_on(device));
  torch::manual_seed(1);
  for (const auto type : {torch::kFloat, torch::kBFloat16}) {
    for (const auto& [rows, width] :
         {std::pair<int64_t, int64_t>{1, 3}, {3, 5}, {33, 16}, {70, 47}, {197, 384}, {40, 1032}}) {
      SCOPED_TRACE(::testing::Message() << type << " " << rows << " x " << width);
      check_norm(device, type, rows, width);
      check_gelu(device, type, rows, width);
      check_scaled_residual(device, type, rows, width);
    }
  }
}

TEST(GpuOperators, RefuseRowsThatDoNotFit) {
  TOST_TEST_GPU(device);
  const auto on = torch::TensorOptions().device(device);
  const Tensor x = torch::ones({4, 6}, on), weight = torch::ones({6}, on);
  EXPECT_THROW(branch::normed(x.t(), weight, {}, 1e-5, torch::kFloat), c10::Error);
  EXPECT_THROW(branch::normed(x, weight.narrow(0, 0, 5), {}, 1e-5, torch::kFloat), c10::Error);
  EXPECT_THROW(branch::normed(x, weight, {}, 1e-5, torch::kHalf), c10::Error);
  EXPECT_THROW(branch::added(x, x, {}, weight, torch::ones({3}, on)), c10::Error);
}

}  // namespace
}  // namespace tost
