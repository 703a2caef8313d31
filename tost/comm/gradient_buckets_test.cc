#include "tost/comm/gradient_buckets.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "tost/comm/processes_test_util.h"

namespace tost {
namespace {

using testing::in_processes;
using torch::Tensor;

torch::nn::Sequential net() {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(7, 33), torch::nn::Tanh(),
                               torch::nn::Linear(33, 5), torch::nn::Linear(5, 1));
}

// Rows of one of `parts` parts.
Tensor loss_of(torch::nn::Sequential& model, int64_t part, int64_t parts) {
  torch::manual_seed(2);
  const Tensor x = torch::randn({16, 7}), y = torch::randn({16, 1});
  const int64_t rows = 16 / parts;
  const Tensor found = model->forward(x.narrow(0, part * rows, rows));
  return (found - y.narrow(0, part * rows, rows)).square().sum() / 16;
}

std::vector<Tensor> gradients(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> all;
  for (const Tensor& p : parameters)
    all.push_back(p.grad().defined() ? p.grad().clone() : Tensor());
  return all;
}

class Buckets : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Processes, Buckets, ::testing::Values(2, 4));

// Over several steps: the first learns when a bucket is full.
TEST_P(Buckets, GradientsAreThoseOfTheWholeBatch) {
  in_processes({.world = GetParam()}, [](Group& group) {
    auto single = net(), shared = net();
    loss_of(single, 0, 1).backward();
    for (const int64_t bytes : {64, 600, 1 << 20}) {
      GradientBuckets buckets(group, shared->parameters(), {.bytes = bytes});
      for (int step = 0; step < 3; ++step) {
        buckets.begin();
        // Two batches, the first without sending.
        loss_of(shared, 2 * group.rank(), 2 * group.world()).backward();
        buckets.arm();
        loss_of(shared, 2 * group.rank() + 1, 2 * group.world()).backward();
        buckets.finish();
        double squares = 0;
        for (size_t i = 0; i < single->parameters().size(); ++i) {
          const Tensor expected = single->parameters()[i].grad(),
                       got = shared->parameters()[i].grad();
          EXPECT_TRUE(torch::allclose(got, expected, 1e-5, 1e-6)) << i << " in step " << step;
          squares += expected.to(torch::kDouble).square().sum().item<double>();
        }
        EXPECT_NEAR(buckets.norm(), std::sqrt(squares), 1e-5);
      }
    }
  });
}

TEST_P(Buckets, PartsHaveTheBitsOfTheWholeAndTheNormToo) {
  in_processes({.world = GetParam()}, [](Group& group) {
    auto whole = net(), parts = net();
    GradientBuckets all(group, whole->parameters(), {.bytes = 600});
    GradientBuckets some(group, parts->parameters(), {.bytes = 600, .scatter = true});
    for (int step = 0; step < 2; ++step) {
      for (auto* one : {&all, &some}) {
        one->begin();
        one->arm();
        loss_of(one == &all ? whole : parts, group.rank(), group.world()).backward();
        one->finish();
      }
      for (size_t i = 0; i < all.buckets().size(); ++i) {
        EXPECT_TRUE(torch::equal(all.buckets()[i].part, some.buckets()[i].part)) << i;
      }
      EXPECT_EQ(all.norm(), some.norm());
    }
  });
}

// A parameter that one process alone uses has a gradient; one that none uses has none.
TEST_P(Buckets, UnusedParametersHaveNoGradient) {
  in_processes({.world = GetParam()}, [](Group& group) {
    const Tensor used = torch::ones({3}).requires_grad_(), once = torch::ones({2}).requires_grad_(),
                 never = torch::ones({5}).requires_grad_();
    GradientBuckets buckets(group, {never, once, used}, {.bytes = 4});
    for (int step = 0; step < 2; ++step) {
      buckets.begin();
      buckets.arm();
      Tensor loss = used.sum();
      if (group.rank() == 1) loss = loss + 2 * once.sum();
      loss.backward();
      buckets.finish();
      EXPECT_TRUE(used.grad().eq(double(group.world())).all().item<bool>());
      EXPECT_TRUE(once.grad().eq(2).all().item<bool>());
      EXPECT_FALSE(never.grad().defined());
      EXPECT_FALSE(buckets.used(0));
    }
  });
}

TEST(Buckets, CompressedSumsAreRoundedToBfloat16) {
  in_processes({.world = 2}, [](Group& group) {
    auto exact = net(), rounded = net();
    GradientBuckets all(group, exact->parameters());
    GradientBuckets half(group, rounded->parameters(), {.bf16 = true});
    const int64_t before = group.sent();
    for (auto* one : {&all, &half}) {
      one->begin();
      one->arm();
      loss_of(one == &all ? exact : rounded, group.rank(), 2).backward();
      one->finish();
    }
    EXPECT_GT(group.sent(), before);
    const auto a = gradients(exact->parameters()), b = gradients(rounded->parameters());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::allclose(a[i], b[i], 2e-2, 1e-3));
    EXPECT_FALSE(torch::equal(a[0], b[0]));
  });
}

}  // namespace
}  // namespace tost
