// Causality, and the state: whole sequences, chunks and single steps are one operator.
#include <gtest/gtest.h>

#include "tost/kernels/isa.h"
#include "tost/ops/tssa_causal.h"
#include "tost/torch.h"

namespace tost {
namespace {

using torch::Tensor;

struct Parameters {
  explicit Parameters(int64_t heads, int64_t positions)
      : temp(torch::linspace(0.5, 1.5, heads).view({heads, 1})),
        bias(torch::randn({heads, positions, 1}) * 0.05) {}
  Tensor temp, bias;
};

struct Pieces {
  Tensor y, pi, state;
};

// In pieces of these lengths, the last repeated.
Pieces in_pieces(const Tensor& w, const Parameters& p, const std::vector<int64_t>& lengths) {
  std::vector<Tensor> ys, pis;
  std::optional<Tensor> state;
  size_t piece = 0;
  for (int64_t t = 0; t < w.size(1); ++piece) {
    const int64_t end = std::min(w.size(1), t + lengths[std::min(piece, lengths.size() - 1)]);
    const auto [y, pi, after] = tssa_causal(w.slice(1, t, end), p.temp, p.bias, state, t);
    ys.push_back(y), pis.push_back(pi);
    state = after;
    t = end;
  }
  return {torch::cat(ys, 1), torch::cat(pis, 2), *state};
}

Pieces whole(const Tensor& w, const Parameters& p) {
  return in_pieces(w, p, {w.size(1)});
}

void expect_near(const Pieces& a, const Pieces& b, double tolerance, const char* what) {
  EXPECT_LE((a.y - b.y).abs().max().item<double>(), tolerance * b.y.abs().max().item<double>())
      << what;
  EXPECT_LE((a.pi - b.pi).abs().max().item<double>(), tolerance) << what;
  EXPECT_LE(((a.state - b.state).abs() / b.state.abs()).max().item<double>(), tolerance) << what;
}

TEST(CausalState, WholeChunkedAndStepwiseAgree) {
  torch::manual_seed(0);
  const auto w = torch::randn({2, 4096, 96});
  const Parameters p(6, 1024);
  const Pieces one = whole(w, p);
  expect_near(in_pieces(w, p, {1}), one, 1e-5, "steps");
  expect_near(in_pieces(w, p, {100, 1, 1, 64, 7, 1000}), one, 1e-5, "chunks");
  const auto [y, pi, state] =
      tssa_causal_plain(w.to(torch::kFloat64), p.temp.to(torch::kFloat64), p.bias);
  expect_near(one, {y.to(torch::kFloat32), pi.to(torch::kFloat32), state}, 1e-5, "float64");
}

TEST(CausalState, AgreesInBfloat16) {
  torch::manual_seed(0);
  const auto w = torch::randn({1, 300, 48}).to(torch::kBFloat16);
  const Parameters p(3, 64);
  const Pieces steps = in_pieces(w, p, {1}), one = whole(w, p);
  EXPECT_LE((steps.pi - one.pi).abs().max().item<double>(), 1e-5);
  EXPECT_LE(((steps.state - one.state).abs() / one.state).max().item<double>(), 1e-5);
  EXPECT_LE((steps.y - one.y).abs().max().item<double>(), 0.01);
}

TEST(CausalState, IsAConstantAndNotChanged) {
  const Parameters p(3, 4);
  const auto w = torch::randn({2, 5, 12}).requires_grad_();
  const auto before = (torch::rand({2, 27}, torch::kFloat64) + 1).requires_grad_();
  const auto copy = before.detach().clone();
  const auto [y, pi, after] = tssa_causal(w, p.temp, p.bias, before, 5);
  EXPECT_FALSE(after.requires_grad());
  (y.sum() + pi.select(1, 0).sum()).backward();
  EXPECT_FALSE(before.grad().defined());
  EXPECT_TRUE(torch::equal(before.detach(), copy));
  EXPECT_NE(after.data_ptr(), before.data_ptr());
  const auto [none, none_pi, same] =
      tssa_causal(w.slice(1, 0, 0), p.temp, p.bias, before.detach(), 5);
  EXPECT_TRUE(torch::equal(same, copy));
}

TEST(CausalState, LaterTokensChangeNothing) {
  torch::manual_seed(0);
  const Parameters p(4, 200);
  for (const auto& isa : kernels::supported_isas()) {
    kernels::force_isa(isa);
    for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
      // Whole samples on a thread each, and windows over heads.
      for (const int64_t batch : {2, 1}) {
        const auto w = torch::randn({batch, 1100, 64}).to(dtype);
        const Pieces one = whole(w, p);
        for (const int64_t t : {1, 8, 63, 65, 1000}) {
          auto other = w.clone();
          other.slice(1, t).mul_(-3).add_(100);
          for (const Pieces& changed : {whole(other, p), whole(w.slice(1, 0, t), p)}) {
            EXPECT_TRUE(torch::equal(changed.y.slice(1, 0, t), one.y.slice(1, 0, t))) << t;
            EXPECT_TRUE(torch::equal(changed.pi.slice(2, 0, t), one.pi.slice(2, 0, t))) << t;
          }
        }
      }
    }
  }
  kernels::force_isa("auto");
}

// Mean and variance of the last tokens are small next to the sums of the first: float32 sums lose
// them.
Tensor long_tokens(int64_t tokens) {
  torch::manual_seed(0);
  auto w = torch::randn({1, tokens, 8});
  w.slice(1, 0, 1000).mul_(10);
  return w;
}

TEST(CausalDriftSlow, AMillionTokensAtOnce) {
  const auto w = long_tokens(1'000'000);
  const Parameters p(2, 16);
  const Pieces found = whole(w, p);
  const auto [y, pi, state] =
      tssa_causal_plain(w.to(torch::kFloat64), p.temp.to(torch::kFloat64), p.bias);
  EXPECT_LE(((found.state - state).abs() / state).max().item<double>(), 1e-7);
  const auto relative = ((found.y - y).abs() / y.abs().clamp_min(1e-3)).slice(1, 999'000);
  EXPECT_LE(relative.max().item<double>(), 2e-6);
}

TEST(CausalDriftSlow, AMillionSteps) {
  const auto w = long_tokens(1'000'000);
  const Parameters p(2, 16);
  const torch::NoGradGuard no_grad;
  std::optional<Tensor> state;
  Tensor y;
  for (int64_t t = 0; t < w.size(1); ++t) {
    std::tie(y, std::ignore, state) = tssa_causal(w.narrow(1, t, 1), p.temp, p.bias, state, t);
  }
  const auto [exact, pi, after] =
      tssa_causal_plain(w.to(torch::kFloat64), p.temp.to(torch::kFloat64), p.bias);
  EXPECT_LE(((*state - after).abs() / after).max().item<double>(), 1e-7);
  const auto last = exact.slice(1, w.size(1) - 1);
  EXPECT_LE(((y - last).abs() / last.abs()).max().item<double>(), 2e-6);
}

}  // namespace
}  // namespace tost
