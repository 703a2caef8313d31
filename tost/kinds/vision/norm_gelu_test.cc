#include <gtest/gtest.h>

#include <memory>

#include "tost/kinds/vision/patch_stem.h"

namespace tost {
namespace norm_gelu_test {

using torch::Tensor;

std::shared_ptr<torch::nn::BatchNorm2dImpl> make_norm(int64_t channels) {
  auto norm = std::make_shared<torch::nn::BatchNorm2dImpl>(channels);
  torch::manual_seed(channels);
  const torch::NoGradGuard no_grad;
  norm->weight.normal_(1, 0.3);
  norm->bias.normal_();
  return norm;
}

Tensor image(std::vector<int64_t> sizes, torch::ScalarType type) {
  return (3 + 2 * torch::randn(sizes)).to(type).contiguous(torch::MemoryFormat::ChannelsLast);
}

double error(const Tensor& found, const Tensor& exact) {
  return (found.to(torch::kDouble) - exact).abs().max().item<double>() /
         std::max(1e-2, exact.abs().max().item<double>());
}

// Value, gradients of input, weight and bias.
std::vector<Tensor> run(torch::nn::BatchNorm2dImpl& norm, const Tensor& z, bool gelu, bool joined) {
  const Tensor p = joined ? norm_gelu(norm, z, gelu) : norm.forward(z);
  const Tensor y = joined || !gelu ? p : torch::gelu(p);
  const Tensor factor = torch::linspace(-1, 1, y.numel(), torch::kDouble).view(y.sizes());
  auto result =
      torch::autograd::grad({(y.to(torch::kDouble) * factor).sum()}, {z, norm.weight, norm.bias});
  result.insert(result.begin(), y.detach());
  return result;
}

TEST(NormGelu, AgreesWithTorch) {
  for (const auto type : {torch::kFloat, torch::kBFloat16}) {
    for (const auto& sizes : std::vector<std::vector<int64_t>>{
             {1, 1, 1, 3}, {2, 5, 3, 4}, {3, 16, 5, 5}, {4, 47, 9, 10}}) {
      for (const bool gelu : {true, false}) {
        SCOPED_TRACE(::testing::Message() << type << " " << sizes << " " << gelu);
        const auto ours = make_norm(sizes[1]), wide = make_norm(sizes[1]);
        wide->to(torch::kDouble);
        const Tensor z = image(sizes, type).requires_grad_(true);
        const Tensor exact_z = z.detach().to(torch::kDouble).requires_grad_(true);
        const auto found = run(*ours, z, gelu, true);
        const auto exact = run(*wide, exact_z, gelu, false);
        for (size_t i = 0; i < exact.size(); ++i) {
          EXPECT_LE(error(found[i], exact[i]), type == torch::kFloat ? 2e-5 : 2e-2) << i;
        }
        EXPECT_EQ(found[0].scalar_type(), type);
        EXPECT_TRUE(found[0].is_contiguous(torch::MemoryFormat::ChannelsLast));
        EXPECT_LE(error(ours->running_mean, wide->running_mean), 1e-6);
        EXPECT_LE(error(ours->running_var, wide->running_var), 1e-5);
        EXPECT_EQ(ours->num_batches_tracked.item<int64_t>(), 1);
      }
    }
  }
}

TEST(NormGelu, CanBeDifferentiatedTwice) {
  const auto norm = make_norm(3), wide = make_norm(3);
  wide->to(torch::kDouble);
  const auto twice = [](torch::nn::BatchNorm2dImpl& n, const Tensor& z, bool joined) {
    const Tensor y = joined ? norm_gelu(n, z, true) : torch::gelu(n.forward(z));
    const auto first = torch::autograd::grad({y.pow(3).sum()}, {z, n.weight}, {}, true, true);
    return torch::autograd::grad({first[0].square().sum() + first[1].square().sum()},
                                 {z, n.weight, n.bias});
  };
  const Tensor z = image({2, 3, 4, 5}, torch::kFloat).requires_grad_(true);
  const auto found = twice(*norm, z, true);
  const auto exact = twice(*wide, z.detach().to(torch::kDouble).requires_grad_(true), false);
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_LE(error(found[i], exact[i]), 1e-4) << i;
}

TEST(NormGelu, LeavesEvaluationToTorch) {
  const auto norm = make_norm(5);
  norm->eval();
  const Tensor z = image({2, 5, 3, 4}, torch::kFloat);
  EXPECT_TRUE(torch::equal(norm_gelu(*norm, z, true), torch::gelu(norm->forward(z))));
  EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 0);
}

}  // namespace norm_gelu_test
}  // namespace tost
