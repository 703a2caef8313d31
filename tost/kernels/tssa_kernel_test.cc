// What torch cannot show: misaligned pointers, missing results, memory beyond the ends, schedules.
// Values and gradients are tested against the plain form in ops/tssa_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tost/kernels/isa.h"
#include "tost/kernels/tssa.h"
#include "tost/kernels/tssa_test_util.h"

namespace tost::kernels {
namespace {

// The forward in float64: w and y [B, N, C] contiguous. docs/tssa.md shows it.
void tssa_reference(const TssaShape& shape, const float* w, const float* temp, double* y) {
  const auto [batch, tokens, heads, width] = shape;
  const int64_t channels = heads * width;
  for (int64_t b = 0; b < batch; ++b, w += tokens * channels, y += tokens * channels) {
    std::vector<double> energy(channels), moment(channels), pi(tokens * heads), pi_sum(heads);
    // 1. Energies.
    for (int64_t i = 0; i < tokens * channels; ++i) energy[i % channels] += double(w[i]) * w[i];
    // 2. Memberships and second moments.
    for (int64_t j = 0; j < tokens; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < heads; ++k) {
        double logit = 0;
        for (int64_t c = k * width; c < (k + 1) * width; ++c) {
          const double v = w[j * channels + c] / std::max(std::sqrt(energy[c]), 1e-12);
          logit += v * v;
        }
        sum += pi[j * heads + k] = std::exp(temp[k] * logit);
      }
      for (int64_t k = 0; k < heads; ++k) pi_sum[k] += pi[j * heads + k] /= sum;
    }
    for (int64_t i = 0; i < tokens * channels; ++i) {
      moment[i % channels] += pi[i / width] * w[i] * w[i] / (pi_sum[i / width % heads] + 1e-8);
    }
    // 3. Output.
    for (int64_t i = 0; i < tokens * channels; ++i) {
      y[i] = -w[i] * pi[i / width] / (1 + moment[i % channels]);
    }
  }
}

struct Result {
  std::vector<float> y, pi, energy, moment, pi_sum, grad_w, grad_temp;
};

Result run(const TssaShape& shape, int64_t offset, int64_t pad, int threads,
           const int64_t* lengths = nullptr) {
  const int64_t stats = shape.batch * shape.channels(),
                memberships = shape.batch * shape.heads * shape.tokens;
  Padded w(shape, offset, pad), g(shape, offset + 1, pad), y(shape, offset, pad + 1),
      grad_w(shape, offset + 2, pad);
  w.fill(1);
  g.fill(2);
  std::vector<float> temp(shape.heads);
  for (int64_t k = 0; k < shape.heads; ++k) temp[k] = 0.5f + k;
  Result r;
  r.pi.resize(memberships), r.energy.resize(stats), r.moment.resize(stats),
      r.pi_sum.resize(shape.batch * shape.heads);
  r.grad_temp.resize(shape.heads);
  const ParallelFor parallel = threads == 2 ? ParallelFor(kTwoThreads) : ParallelFor(serial_for);

  TssaForwardArgs forward;
  forward.shape = shape;
  forward.w = w.const_tokens();
  forward.temp = temp.data();
  forward.lengths = lengths;
  forward.y = y.tokens();
  // Without the optional results first: the answer must not depend on them.
  Workspace bare(tssa_forward_workspace(forward));
  tssa_forward(forward, bare.data, parallel, threads);
  const auto bare_y = y.storage;
  forward.pi = r.pi.data(), forward.energy = r.energy.data();
  forward.moment = r.moment.data(), forward.pi_sum = r.pi_sum.data();
  Workspace full(tssa_forward_workspace(forward));
  tssa_forward(forward, full.data, parallel, threads);
  EXPECT_EQ(bare_y, y.storage);
  EXPECT_EQ(y.canaries(), y.expected_canaries());

  TssaBackwardArgs backward;
  backward.shape = shape;
  backward.w = w.const_tokens(), backward.grad_y = g.const_tokens();
  backward.temp = temp.data(), backward.lengths = lengths, backward.pi = r.pi.data(),
  backward.energy = r.energy.data();
  backward.moment = r.moment.data(), backward.pi_sum = r.pi_sum.data();
  backward.grad_w = grad_w.tokens(), backward.grad_temp = r.grad_temp.data();
  Workspace workspace(tssa_backward_workspace(backward));
  tssa_backward(backward, workspace.data, parallel, threads);
  EXPECT_EQ(grad_w.canaries(), grad_w.expected_canaries());
  y.for_each([&](float x) { r.y.push_back(x); });
  grad_w.for_each([&](float x) { r.grad_w.push_back(x); });
  return r;
}

void expect_same(const std::vector<float>& a, const std::vector<float>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_TRUE(a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0) << what;
}
void expect_same(const Result& a, const Result& b) {
  expect_same(a.y, b.y, "y");
  expect_same(a.pi, b.pi, "pi");
  expect_same(a.energy, b.energy, "energy");
  expect_same(a.moment, b.moment, "moment");
  expect_same(a.pi_sum, b.pi_sum, "pi_sum");
  expect_same(a.grad_w, b.grad_w, "grad_w");
  expect_same(a.grad_temp, b.grad_temp, "grad_temp");
}

TEST(TssaKernel, AlignmentStridesAndThreadsChangeNothing) {
  for (const auto& isa : supported_isas()) {
    force_isa(isa);
    for (const TssaShape& shape :
         {TssaShape{1, 1, 1, 1}, TssaShape{2, 7, 3, 5}, TssaShape{1, 200, 2, 16},
          TssaShape{3, 65, 4, 33}, TssaShape{5, 8, 300, 1}}) {
      SCOPED_TRACE(::testing::Message() << isa << " " << shape.batch << "x" << shape.tokens << "x"
                                        << shape.heads << "x" << shape.width);
      const Result aligned = run(shape, 0, 0, 1);
      expect_same(aligned, run(shape, 1, 0, 1));
      expect_same(aligned, run(shape, 3, 5, 1));
      expect_same(aligned, run(shape, 0, 0, 2));
      std::vector<int64_t> lengths(size_t(shape.batch));
      for (size_t b = 0; b < lengths.size(); ++b)
        lengths[b] = shape.tokens * int64_t(b) / shape.batch;
      const Result ragged = run(shape, 0, 0, 1, lengths.data());
      expect_same(ragged, run(shape, 3, 5, 1, lengths.data()));
      expect_same(ragged, run(shape, 0, 0, 2, lengths.data()));
    }
  }
  force_isa("auto");
}

TEST(TssaKernel, StatisticsFollowTheirDefinition) {
  const TssaShape shape{2, 130, 3, 7};
  const Result r = run(shape, 0, 0, 1);
  Padded w(shape, 0, 0);
  w.fill(1);
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t c = 0; c < shape.channels(); ++c) {
      const int64_t k = c / shape.width;
      double energy = 0, moment = 0, weight = 0;
      for (int64_t t = 0; t < shape.tokens; ++t) {
        const double square = std::pow(static_cast<double>(w.at(b, t, c)), 2);
        const double pi = r.pi[(b * shape.heads + k) * shape.tokens + t];
        energy += square, moment += pi * square, weight += pi;
      }
      EXPECT_NEAR(r.energy[b * shape.channels() + c] / energy, 1, 1e-6);
      EXPECT_NEAR(r.moment[b * shape.channels() + c] / (moment / weight), 1, 1e-6);
      EXPECT_NEAR(r.pi_sum[b * shape.heads + k] / weight, 1, 1e-6);
    }
  }
}

TEST(TssaKernel, OutputsAreThoseOfTheReference) {
  for (const auto& isa : supported_isas()) {
    force_isa(isa);
    for (const TssaShape& shape : {TssaShape{1, 1, 1, 1}, TssaShape{2, 7, 3, 5},
                                   TssaShape{1, 200, 2, 16}, TssaShape{3, 65, 4, 33}}) {
      SCOPED_TRACE(::testing::Message() << isa << " " << shape.tokens << "x" << shape.width);
      Padded w(shape, 0, 0);
      w.fill(1);
      std::vector<float> temp(shape.heads);
      for (int64_t k = 0; k < shape.heads; ++k) temp[k] = 0.5f + k;
      const Result found = run(shape, 0, 0, 1);
      std::vector<double> wanted(found.y.size());
      tssa_reference(shape, w.storage.data(), temp.data(), wanted.data());
      for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found.y[i], wanted[i], 2e-6);
    }
  }
  force_isa("auto");
}

TEST(TssaKernel, NothingToDo) {
  run({0, 5, 2, 3}, 0, 0, 1);
  const Result r = run({2, 0, 2, 3}, 0, 0, 2);
  for (const float x : r.moment) EXPECT_EQ(x, 0.0f);
  for (const float x : r.grad_temp) EXPECT_EQ(x, 0.0f);
}

}  // namespace
}  // namespace tost::kernels
