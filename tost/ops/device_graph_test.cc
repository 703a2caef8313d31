// Graphs, and functions run by them, on a GPU or on the one that stands in for it.
#include "tost/ops/device_graph.h"

#include <gtest/gtest.h>

#include "tost/base/error.h"
#include "tost/ops/device.h"
#include "tost/ops/graphed_call.h"
#include "tost/ops/tssa.h"
#include "tost/testing/errors.h"
#include "tost/testing/stand_in_gpu.h"
#include "tost/torch.h"

namespace tost {
namespace {

using torch::Tensor;

Tensor numbers(std::vector<float> values, torch::Device device) {
  return torch::tensor(values).to(device);
}

TEST(DeviceGraph, RunsNothingWhileCapturingAndAllOfItWhenReplayed) {
  TOST_TEST_GPU(device);
  ASSERT_TRUE(graphs_run_on(device));
  const Tensor x = numbers({1, 2}, device), sum = numbers({0, 0}, device);
  const auto graph = make_device_graph(device);
  Tensor doubled;
  const auto work = [&] {
    doubled = x * 2;
    sum.add_(doubled);
  };
  graph->warm_up(work);
  EXPECT_TRUE(sum.cpu().equal(torch::tensor({2.f, 4.f})));
  graph->capture(work);
  EXPECT_TRUE(sum.cpu().equal(torch::tensor({2.f, 4.f})));
  EXPECT_FALSE(capturing_graph());
  x.copy_(torch::tensor({5.f, 7.f}));
  graph->replay();
  graph->replay();
  EXPECT_TRUE(doubled.cpu().equal(torch::tensor({10.f, 14.f})));
  EXPECT_TRUE(sum.cpu().equal(torch::tensor({22.f, 32.f})));
}

// A step counter of the host is one of the usual mistakes; one on the device is not.
TEST(DeviceGraph, FreezesTheHostsNumbersAndNotTheDevices) {
  TOST_TEST_GPU(device);
  const Tensor frozen = numbers({0}, device), counted = numbers({0}, device),
               steps = numbers({0}, device);
  double step = 1;
  const auto graph = make_device_graph(device);
  graph->capture([&] {
    steps.add_(1);
    frozen.fill_(step);
    counted.copy_(steps);
  });
  for (step = 2; step <= 3; ++step) graph->replay();
  EXPECT_EQ(frozen.item<float>(), 1);
  EXPECT_EQ(counted.item<float>(), 2);
}

TEST(DeviceGraph, BackwardIsCapturedAndAddsToTheSameGradients) {
  TOST_TEST_GPU(device);
  const Tensor w = numbers({3, 4}, device).requires_grad_(true), x = numbers({1, 2}, device);
  Tensor loss;
  const auto work = [&] {
    loss = (w.square() * x).sum();
    loss.backward();
  };
  const auto graph = make_device_graph(device);
  graph->warm_up(work);
  const void* place = w.grad().const_data_ptr();
  w.mutable_grad().zero_();
  graph->capture(work);
  graph->replay();
  EXPECT_EQ(loss.item<float>(), 41);
  EXPECT_TRUE(w.grad().cpu().equal(torch::tensor({6.f, 16.f})));
  graph->replay();
  EXPECT_TRUE(w.grad().cpu().equal(torch::tensor({12.f, 32.f})));
  EXPECT_EQ(w.grad().const_data_ptr(), place);
}

TEST(DeviceGraph, DrawsOnWhereTheGeneratorStands) {
  TOST_TEST_GPU(device);
  const auto draw = [&] { return torch::empty({64}, torch::device(device)).bernoulli_(0.5); };
  torch::manual_seed(7);
  const Tensor first = draw(), second = draw(), third = draw();
  torch::manual_seed(7);
  Tensor drawn;
  const auto graph = make_device_graph(device);
  graph->warm_up([&] { drawn = draw(); });
  EXPECT_TRUE(drawn.equal(first));
  graph->capture([&] { drawn = draw(); });
  graph->replay();
  EXPECT_TRUE(drawn.equal(second));
  graph->replay();
  EXPECT_TRUE(drawn.equal(third));
}

class NotCapturable : public ::testing::Test {
 protected:
  void expect_refused(const std::function<void(const Tensor&)>& work, const char* what) {
    const c10::Device device(c10::kCUDA, 0);
    const Tensor x = numbers({1, 0, 2}, device);
    EXPECT_THROW(make_device_graph(device)->capture([&] { work(x); }), c10::Error) << what;
    EXPECT_FALSE(capturing_graph());
    EXPECT_EQ((x + 1).sum().item<float>(), 6) << "after " << what;  // and the device still works
  }
};

TEST_F(NotCapturable, WaitingForTheDevice) {
  TOST_TEST_GPU(device);
  expect_refused([](const Tensor& x) { x.sum().item<float>(); }, "item");
  expect_refused([](const Tensor& x) { x.cpu(); }, "a copy to the host");
  expect_refused([](const Tensor& x) { x.nonzero(); }, "nonzero");
  expect_refused([](const Tensor& x) { x.index({x > 0}); }, "an index of truth values");
}

// Torch computes these on a GPU by libraries that do not say they can be captured.
TEST_F(NotCapturable, Solvers) {
  TOST_TEST_GPU(device);
  if (built_with_cuda()) GTEST_SKIP() << "a real GPU may capture some of them";
  const auto square = [](const Tensor& x) { return x.outer(x) + torch::diag(x + 5); };
  expect_refused([&](const Tensor& x) { torch::linalg_qr(square(x)); }, "qr");
  expect_refused([&](const Tensor& x) { torch::linalg_solve(square(x), x); }, "solve");
  expect_refused([&](const Tensor& x) { torch::linalg_inv_ex(square(x)); }, "inverse");
  expect_refused([&](const Tensor& x) { torch::linalg_eigvalsh(square(x)); }, "eigenvalues");
  const Tensor x = numbers({1, 0, 2}, device);
  Tensor solved;
  const auto graph = make_device_graph(device);
  graph->capture([&] {
    solved = torch::linalg_solve_triangular(square(x).tril(), x.unsqueeze(1), /*upper=*/false);
  });
  graph->replay();
  const Tensor wanted =
      torch::linalg_solve_triangular(square(x.cpu()).tril(), x.cpu().unsqueeze(1), false);
  EXPECT_TRUE(torch::allclose(solved.cpu(), wanted));
}

// A real capture refuses these as well, unless the memory is pinned; then it would read it again at
// every replay, long after it was let go.
TEST_F(NotCapturable, MemoryOfTheHost) {
  TOST_TEST_GPU(device);
  expect_refused([&](const Tensor& x) { x.add(torch::ones({3}).to(x.device())); }, "a tensor");
  expect_refused([](const Tensor& x) { torch::tensor({1.f}, x.options()); }, "a list of numbers");
}

// Fields of a tssa layer, so that this project's operators are among those recorded.
TEST(GraphedCall, GivesWhatThePlainFunctionGivesForEveryShape) {
  TOST_TEST_GPU(device);
  torch::manual_seed(1);
  const Tensor temp = torch::rand({2, 1}).to(device);
  const auto layer = [&](const Tensors& x) {
    const auto [y, pi] = tssa(x[0], temp, x[1].defined() ? std::optional(x[1]) : std::nullopt);
    return Tensors{y, pi.sum(2)};
  };
  GraphedCall graphed(device, true, layer), plain(device, false, layer);
  for (int i = 0; i < 6; ++i) {
    for (const int64_t tokens : {5, 9}) {
      const Tensor x = torch::randn({3, tokens, 8});
      const Tensor lengths = tokens == 9 ? torch::tensor({9, i + 1, 2}) : Tensor();
      const auto found = graphed({x, lengths});
      const auto wanted = plain({x.to(device), lengths.defined() ? lengths.to(device) : lengths});
      EXPECT_TRUE(found[0].equal(wanted[0])) << i;
      EXPECT_TRUE(found[1].equal(wanted[1])) << i;
    }
  }
  EXPECT_EQ(graphed.replays(), 2 * (6 - GraphedCall::kWarmUps));
  EXPECT_EQ(plain.replays(), 0);
  EXPECT_EQ(graphed.take_complaint(), "");
}

TEST(GraphedCall, GoesOnPlainlyWhereItCannotCapture) {
  TOST_TEST_GPU(device);
  GraphedCall graphed(device, true,
                      [](const Tensors& x) { return Tensors{x[0] * x[0].sum().item<double>()}; });
  for (int i = 1; i < 6; ++i) {
    const Tensor y = graphed({torch::full({2}, double(i))})[0];
    EXPECT_EQ(y.sum().item<float>(), float(4 * i * i));
  }
  EXPECT_FALSE(graphed.by_graphs());
  EXPECT_NE(graphed.take_complaint().find("without graphs"), std::string::npos);
  EXPECT_EQ(graphed.take_complaint(), "");
}

TEST(GraphedCall, RunsMoreShapesThanItKeepsPlainly) {
  TOST_TEST_GPU(device);
  GraphedCall graphed(device, true, [](const Tensors& x) { return Tensors{x[0] + 1}; });
  for (int round = 0; round < 4; ++round) {
    for (int64_t n = 1; n <= int64_t(GraphedCall::kMostShapes) + 3; ++n) {
      EXPECT_EQ(graphed({torch::ones({n}).to(device)})[0].sum().item<float>(), float(2 * n));
    }
  }
  EXPECT_EQ(graphed.replays(), 2 * int64_t(GraphedCall::kMostShapes));
  EXPECT_TRUE(graphed.by_graphs());
  EXPECT_NE(graphed.take_complaint().find("6 sets of shapes"), std::string::npos);
  EXPECT_EQ(graphed.take_complaint(), "");
}

// What is on one line of the command line's choice `on`.
TEST(GraphedCall, EndsInOneSentenceWhereGraphsAreDemandedAndCannotBe) {
  TOST_TEST_GPU(device);
  GraphedCall waits(device, true,
                    [](const Tensors& x) { return Tensors{x[0] * x[0].sum().item<double>()}; });
  waits.demand_graphs();
  for (int i = 0; i < GraphedCall::kWarmUps; ++i) waits({torch::ones({2})});
  const auto why = testing::usage_error_of([&] { waits({torch::ones({2})}); });
  EXPECT_NE(why.find("graphs on cannot be: "), std::string::npos) << why;
  EXPECT_NE(why.find("use graphs auto or off."), std::string::npos) << why;
  EXPECT_FALSE(waits.by_graphs());

  GraphedCall adds(device, true, [](const Tensors& x) { return Tensors{x[0] + 1}; });
  adds.demand_graphs();
  const auto most = int64_t(GraphedCall::kMostShapes);
  for (int64_t n = 1; n <= most; ++n) adds({torch::ones({n})});
  const auto one_more = testing::usage_error_of([&] { adds({torch::ones({most + 1})}); });
  EXPECT_NE(one_more.find("graphs for 6 sets of shapes"), std::string::npos) << one_more;
}

TEST(GraphsWanted, FollowsTheChoiceAndTheDevice) {
  TOST_TEST_GPU(device);
  EXPECT_TRUE(graphs_wanted("auto", device));
  EXPECT_TRUE(graphs_wanted("on", device));
  EXPECT_FALSE(graphs_wanted("off", device));
  EXPECT_FALSE(graphs_wanted("auto", at::kCPU));
  EXPECT_THROW(graphs_wanted("on", at::kCPU), Error);
  EXPECT_THROW(graphs_wanted("yes", device), Error);
}

}  // namespace
}  // namespace tost
