#include "tost/comm/batch_norms.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

#include "tost/comm/processes_test_util.h"

namespace tost {
namespace {

using testing::in_processes;
using torch::Tensor;

double worst(const Tensor& a, const Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

class BatchNorms : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Processes, BatchNorms, ::testing::Values(2, 4));

TEST_P(BatchNorms, OfPartsAreThoseOfTheWholeBatch) {
  in_processes({.world = GetParam()}, [](Group& group) {
    torch::manual_seed(1);
    const Tensor whole = (torch::randn({12, 5, 3, 3}) + 2).requires_grad_();
    const Tensor weight = torch::randn({5}).requires_grad_();
    const Tensor bias = torch::randn({5}).requires_grad_();
    const Tensor out = torch::randn({12, 5, 3, 3});
    Tensor mean = torch::zeros({5}), variance = torch::zeros({5});
    const Tensor y = torch::batch_norm(whole, weight, bias, mean, variance, true, 1.0, 1e-5, false);
    const auto expected = torch::autograd::grad({(y * out).sum()}, {whole, weight, bias});

    const int64_t first = 12 * group.rank() / group.world(), rows = 12 / group.world();
    const auto part = [&](const Tensor& x) { return x.narrow(0, first, rows); };
    const Tensor local = part(whole.detach()).clone().requires_grad_();
    BatchMoments moments;
    const Tensor z = synced_batch_norm(group, local, weight, bias, 1e-5, moments);
    auto got = torch::autograd::grad({(z * part(out)).sum()}, {local, weight, bias});
    group.sum(got[1]);
    group.sum(got[2]);
    EXPECT_EQ(moments.rows, 12 * 9);
    EXPECT_LT(worst(moments.mean, mean), 1e-6);
    EXPECT_LT(worst(moments.variance * (108.0 / 107), variance), 1e-6);
    EXPECT_LT(worst(z, part(y)), 1e-6);
    EXPECT_LT(worst(got[0], part(expected[0])), 2e-6);
    EXPECT_LT(worst(got[1], expected[1]), 2e-6);
    EXPECT_LT(worst(got[2], expected[2]), 2e-6);
  });
}

// Five batches over the processes, in two steps.
TEST_P(BatchNorms, RunningStatisticsAreThoseOfOneProcess) {
  in_processes({.world = GetParam()}, [](Group& group) {
    constexpr int64_t kBatches = 5;
    torch::nn::BatchNorm1d single(3), shared(3);
    RunningStatistics statistics(group, *shared);
    torch::manual_seed(4);
    for (int step = 0; step < 2; ++step) {
      statistics.begin();
      for (int64_t i = 0; i < kBatches; ++i) {
        const Tensor x = torch::randn({8, 3}) * double(i + 1) + double(i);
        single->forward(x);
        if (i % group.world() != group.rank()) continue;
        statistics.before_batch();
        shared->forward(x);
        statistics.after_batch(kBatches - 1 - i, true);
      }
      statistics.finish(kBatches);
      EXPECT_LT(worst(shared->running_mean, single->running_mean), 1e-6);
      EXPECT_LT(worst(shared->running_var, single->running_var), 1e-6);
      EXPECT_EQ(shared->num_batches_tracked.item<int64_t>(), kBatches * (step + 1));
    }
  });
}

TEST(BatchNorms, AScopeEnds) {
  in_processes({.world = 1}, [](Group& group) {
    EXPECT_EQ(BatchNormScope::group(), nullptr);
    {
      const BatchNormScope scope(&group);
      EXPECT_EQ(BatchNormScope::group(), &group);
      {
        const BatchNormScope none(nullptr);
        EXPECT_EQ(BatchNormScope::group(), nullptr);
      }
      EXPECT_EQ(BatchNormScope::group(), &group);
    }
    EXPECT_EQ(BatchNormScope::group(), nullptr);
  });
}

}  // namespace
}  // namespace tost
